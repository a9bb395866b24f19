"""Count the kernels that a training step launches on a GPU, by part, without one: python -m scripts.launches

Columns are recipes, rows parts of the second step, when the optimizer has its state. The last row is what waits for the
device: 0. The device is `tests/gpu/pretended_gpu.py`, and an operation one kernel but for those in its `KERNELS`;
libraries launch a few more. Network and batch are small, as their sizes change no count but that of losses in tiles.
With other overrides: python -m scripts.launches loss=supcon optimizer=lars

What torch.compile makes of the network, head included, for an H100: kernels that it generates, calls of libraries, and
gigabytes that each kind reads and writes, forward and backward (torch 2.15): python -m scripts.launches --compiled

What an evaluation of the untrained encoder launches and how often it waits, on a pretended GPU that computes on the CPU
and needs the data: python -m scripts.launches --evaluators dataset=digits
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from hydra import compose, initialize_config_dir
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from contrastive.augmentation.compose import Compose
from contrastive.config.paths import CONFIGS
from contrastive.config.settings import Settings
from contrastive.distributed.batch_norm import convert_batch_norm, counted_together, counting, views_apart
from contrastive.evaluator.base import evaluate
from contrastive.experiment.build import build as build_experiment
from contrastive.experiment.components import build_encoder, build_loss, build_one, build_optimizer, instantiate_node
from contrastive.experiment.run import features
from contrastive.loss.base import Loss
from contrastive.text import format_grid
from contrastive.training.loader import Loader
from contrastive.training.objective import Objective
from contrastive.training.precision import Normalize, autocast
from contrastive.training.step import TrainStep
from contrastive.types import Split
from tests.gpu.generated_code import Generated, generated
from tests.gpu.pretended_gpu import CUDA, pretended_gpu

N_IMAGES, N_CLASSES, SIDE = 10_000, 10, 32
SMALL = ["encoder.width=8", "batch_size=64"]
RECIPES = {
    "default": ["dataset=cifar10"],
    "the paper's": ["experiment=debiased_positive"],
    "M = 4": ["experiment=debiased_positive", "loss=debiased_pos", "n_views=5", "batch_size=64"],
}
PARTS = [(Compose, "draw"), (TrainStep, "views"), (TrainStep, "encode"), (Objective, "forward"), (Tensor, "backward")]
NAMES = ["draw", "augment", "forward", "loss", "backward", "update", "batch"]  # update is all else of a step


def count(overrides: list[str]) -> tuple[Counter[str], Counter[str]]:
    """The launches, by part, and the waits of a batch and the step on it; both were done once before."""
    launches: Counter[str] = Counter()
    with pretended_gpu() as gpu, ExitStack() as stack:

        def labeled(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
            """The function, whose launches count to the part of this name and to no part around it."""

            def counted(*args: Any, **kwargs: Any) -> Any:
                before, inner = gpu.launches.count, launches.total()
                out = function(*args, **kwargs)
                launches[name] += gpu.launches.count - before - (launches.total() - inner)
                return out

            return counted

        for name, (owner, method) in zip(NAMES, PARTS, strict=False):
            stack.enter_context(mock.patch.object(owner, method, labeled(name, getattr(owner, method))))
        step, loader = build(compose_settings([*SMALL, *overrides]))
        batches, rng = loader.epoch(0), torch.Generator("cuda")
        for _ in range(2):
            launches.clear()
            gpu.waits.clear()
            batch = labeled("batch", lambda: next(batches).to(CUDA))()
            labeled("update", step)(batch, rng)
    return launches, gpu.waits


def build(settings: Settings) -> tuple[TrainStep, Loader]:
    """Step and loader of these settings on the pretended GPU, for images of CIFAR-10's shape."""
    label = torch.arange(N_IMAGES) % N_CLASSES
    split = Split(torch.zeros(N_IMAGES, 3, SIDE, SIDE, dtype=torch.uint8), label, label)
    encoder = build_encoder(settings.encoder, SIDE)
    head = instantiate_node(settings.head, in_dim=encoder.dim)
    terms = [build_loss(settings.loss)]
    if settings.regularizer:
        terms.append(build_one("regularizer", settings.regularizer, Loss))
    objective = Objective(
        *terms,
        train=split,
        n_classes=N_CLASSES,
        feature_dim=encoder.dim,
        projection_dim=head.dim,
    )
    loader = Loader(
        split.to(CUDA),
        batch_size=settings.batch_size,
        seed=0,
        noise_frac=settings.noise_frac,
        blur_frac=settings.blur_frac,
        second_batch_size=objective.second_batch_size(settings.batch_size),
        device=CUDA,
    )
    modules = [module.to(CUDA) for module in (encoder, head, objective)]
    step = TrainStep(
        encoder=encoder,
        head=head,
        objective=objective,
        optimizer=build_optimizer(settings.optimizer, [[p for module in modules for p in module.parameters()]]),
        augmentation=build_one("augmentation", settings.augmentation, Compose),
        normalize=Normalize((0.5,) * 3, (0.25,) * 3, device=CUDA, channels_last=settings.channels_last),
        autocast=autocast("bf16" if settings.precision == "auto" else settings.precision, CUDA),
        scaler=torch.amp.GradScaler("cuda", enabled=False),
        n_views=settings.n_views,
        views_forward=settings.views_forward,
        chunk=settings.grad_cache_chunk,
    )
    return step, loader


def evaluators(overrides: list[str]) -> list[list[str]]:
    """Rows of a table: launches and waits of the features, and of each evaluator on them."""
    rows = [["part", "launches", "waits"]]
    with pretended_gpu() as gpu:

        @contextmanager
        def counted(name: str) -> Iterator[None]:
            launches, waits = gpu.launches.count, gpu.waits.total()
            yield
            rows.append([name, f"{gpu.launches.count - launches:,}", f"{gpu.waits.total() - waits:,}"])

        experiment = build_experiment(compose_settings(["compile=false", *overrides, "device=cuda"]))
        with counted("total"):
            with counted("features"):
                sets = features(experiment, experiment.evaluators)
            evaluate(experiment.evaluators, sets, strict=False, announce=counted)
    return rows


def compiled(recipes: dict[str, list[str]]) -> list[list[str]]:
    """Rows of a table: what the networks of these recipes are compiled to, forward and backward."""
    rows = [["recipe", "pass", "kernels", "GB", "library calls", "GB"]]
    for name, overrides in recipes.items():
        for which, made in zip(("forward", "backward"), compiled_network(compose_settings(overrides)), strict=True):
            sizes = [f"{n / 1e9:.2f}" for n in (made.kernel_bytes, made.call_bytes)]
            rows.append([name, which, str(made.kernels), sizes[0], str(made.calls), sizes[1]])
    return rows


def compiled_network(settings: Settings) -> tuple[Generated, Generated]:
    """Of encoder and head, on the views of a batch in bf16, as `TrainStep` sends them through."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        encoder = build_encoder(settings.encoder, SIDE)
        network = nn.Sequential(encoder, instantiate_node(settings.head, in_dim=encoder.dim))
        counts = counting(network)
        n_apart = settings.n_views if settings.views_forward == "per_view" else 1
        layers = convert_batch_norm(network) if n_apart > 1 else []
        x = torch.empty(settings.n_views * settings.batch_size, 3, SIDE, SIDE)
        x = x.contiguous(memory_format=torch.channels_last if settings.channels_last else torch.contiguous_format)
        autocast = torch.autocast("cpu", torch.bfloat16)
        with views_apart(layers, n_apart), counted_together(counts, n_apart), autocast:
            return generated(network, x)


def compose_settings(overrides: list[str]) -> Settings:
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return Settings.from_config(compose("train", overrides))


def main(words: list[str]) -> None:
    if "--evaluators" in words:
        return print(format_grid(evaluators([word for word in words if word != "--evaluators"])))
    overrides = [word for word in words if word != "--compiled"]
    recipes = {" ".join(overrides): overrides} if overrides else RECIPES
    if "--compiled" in words:
        return print(format_grid(compiled(recipes)))
    counted = {name: count(overrides) for name, overrides in recipes.items()}
    table = {part: [launches[part] for launches, _ in counted.values()] for part in NAMES}
    table["total"] = [launches.total() for launches, _ in counted.values()]
    table["waits"] = [waits.total() for _, waits in counted.values()]
    print(format_grid([["part", *counted], *([part, *map(str, numbers)] for part, numbers in table.items())]))


if __name__ == "__main__":
    main(sys.argv[1:])
