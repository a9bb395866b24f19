"""Count the kernels that a training step launches on a GPU, by part, without one: python -m scripts.launches

Columns are recipes, rows parts of the second step, when the optimizer has its state. The last row is what waits for the
device: 0. An operation counts as one kernel but for those in `tests/gpu/fake_cuda.py`; libraries launch a few
more. With other overrides: python -m scripts.launches loss=supcon optimizer=lars

What torch.compile makes of the network, head included, for an H100: kernels that it generates, calls of libraries, and
gigabytes that each kind reads and writes, forward and backward (torch 2.15): python -m scripts.launches --compiled

What an evaluation of the untrained encoder launches and how often it waits, on a pretended GPU that computes on the CPU
and needs the data: python -m scripts.launches --evaluators dataset=digits
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch
from hydra import compose, initialize_config_dir
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily

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
from contrastive.training.precision import Normalize
from contrastive.training.step import TrainStep
from contrastive.types import Split
from tests.gpu.fake_cuda import CUDA, Counter, FakeGenerator, bf16, fake_cuda, on_fake_cuda
from tests.gpu.generated_code import Generated, generated
from tests.gpu.pretended_gpu import pretended_gpu

N_IMAGES, N_CLASSES, SIDE = 50_000, 10, 32
RECIPES = {
    "default": ["dataset=cifar10"],
    "the paper's": ["experiment=debiased_positive"],
    "M = 4": ["experiment=debiased_positive", "loss=debiased_pos", "n_views=5", "batch_size=64"],
}
PARTS = [(Compose, "draw"), (TrainStep, "views"), (TrainStep, "encode"), (Objective, "forward"), (Tensor, "backward")]
NAMES = ["draw", "augment", "forward", "loss", "backward", "update", "batch"]  # update is all else of a step


def count(overrides: list[str]) -> Counter:
    """The launches and waits of a batch and the step on it; both were done once before."""
    step, loader = build(compose_settings(overrides))
    counter, rng = Counter(), FakeGenerator()
    with ExitStack() as stack:
        for name, (owner, method) in zip(NAMES, PARTS, strict=False):
            stack.enter_context(mock.patch.object(owner, method, labeled(counter, name, getattr(owner, method))))
        stack.enter_context(counter)
        batches = loader.epoch(0)
        for _ in range(2):
            counter.launches.clear()
            with counter.part("batch"):
                batch = next(batches).to(CUDA)
            with counter.part("update"):
                step(batch, rng)
    return counter


def labeled(counter: Counter, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose launches count to the part of this name."""

    def counted(*args: Any, **kwargs: Any) -> Any:
        with counter.part(name):
            return function(*args, **kwargs)

    return counted


def build(settings: Settings) -> tuple[TrainStep, Loader]:
    """Step and loader of these settings on the fake device, for images of CIFAR-10's number and shape."""
    with unset_fake_temporarily():  # what the host reads before the first step is real
        label = torch.arange(N_IMAGES) % N_CLASSES
        split = Split(torch.zeros(1, dtype=torch.uint8).expand(N_IMAGES, 3, SIDE, SIDE), label, label)
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
            map_dim=getattr(encoder, "map_dim", None),
        )
        loader = Loader(
            split,
            batch_size=settings.batch_size,
            seed=0,
            noise_frac=settings.noise_frac,
            blur_frac=settings.blur_frac,
            second_batch_size=objective.second_batch_size(settings.batch_size),
            device=CUDA,
        )
    loader.split = loader.noise.split = Split(
        torch.empty(split.image.shape, dtype=torch.uint8, device=CUDA), *(torch.empty_like(label, device=CUDA),) * 2
    )
    precision: Any = nullcontext if settings.precision in ("fp32", "tf32") else bf16  # as "auto" is on a GPU of today
    modules = [on_fake_cuda(module) for module in (encoder, head, objective)]
    step = TrainStep(
        encoder=encoder,
        head=head,
        objective=objective,
        optimizer=build_optimizer(settings.optimizer, [[p for module in modules for p in module.parameters()]]),
        augmentation=build_one("augmentation", settings.augmentation, Compose),
        normalize=Normalize((0.5,) * 3, (0.25,) * 3, device=CUDA, channels_last=settings.channels_last),
        autocast=precision,
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
    with fake_cuda():
        counters = {name: count(overrides) for name, overrides in recipes.items()}
    table = {part: [counter.launches[part] for counter in counters.values()] for part in NAMES}
    table["total"] = [counter.launches.total() for counter in counters.values()]
    table["waits"] = [len(counter.waits) for counter in counters.values()]
    print(format_grid([["part", *counters], *([part, *map(str, numbers)] for part, numbers in table.items())]))


if __name__ == "__main__":
    main(sys.argv[1:])
