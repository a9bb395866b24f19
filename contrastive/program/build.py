"""Build the objects of a run from its settings, in dependency order.

Whatever can be refused without data is refused before any is loaded.
"""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from hydra.utils import instantiate

from contrastive.dataset._splits import fingerprint
from contrastive.distributed.batch_norm import convert_sync_batchnorm
from contrastive.distributed.process import broadcast_from_main, main_process_first, shard
from contrastive.errors import ConfigError
from contrastive.evaluator.base import Evaluator
from contrastive.program.check_types import check_components
from contrastive.program.encoder_output import check_encoder_output, image_size
from contrastive.program.settings import Settings
from contrastive.seeding import derive
from contrastive.training import precision as precisions
from contrastive.training.loader import Loader
from contrastive.training.normalize import Normalize
from contrastive.training.objective import Objective
from contrastive.training.step import TrainStep
from contrastive.types import Data


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """The built parts of a run."""

    step: TrainStep
    loader: Loader
    schedule: Callable[[float, int], float]
    evaluators: dict[str, Evaluator]
    data: Data
    data_hash: str
    device: torch.device
    precision: str


def build(settings: Settings) -> Experiment:
    """Build everything a run needs.

    Raises:
        ConfigError: a setting, or a combination of settings, that cannot be used.
    """
    device = choose_device(settings.device)
    precision = precisions.choose(settings.precision, device)
    if settings.compile:
        check_compiler(device)
    check_components(settings)
    torch.manual_seed(derive(settings.seed, "weights"))
    loss = instantiate_node(settings.loss)
    regularizers = [instantiate_node(settings.regularizer)] if settings.regularizer else []
    augmentation, schedule = instantiate_node(settings.augmentation), instantiate_node(settings.schedule)
    evaluators = build_evaluators(settings.evaluator)
    for term in (loss, *regularizers):
        term.check_config(batch_size=settings.batch_size)
    encoder = instantiate_node(settings.encoder)
    check_encoder_output(encoder, image_size(settings.dataset))
    head = instantiate_node(settings.head, in_dim=encoder.dim)
    check_optimizer(settings.optimizer)

    with main_process_first():  # the others find what it downloaded and decoded
        data, data_hash = load_data(settings.dataset)
    augmentation.output_size(*data.pretrain.image.shape[-2:])  # refuses a crop or a blur that does not fit
    for term in (loss, *regularizers):
        term.check_batch(
            batch_size=settings.batch_size,
            n_views=settings.n_views,
            has_label=bool((data.pretrain.label >= 0).all()),
            has_bias=data.pretrain.bias is not None,
        )
    objective = Objective(
        loss,
        regularizers,
        train=data.pretrain,
        n_classes=len(data.classes),
        feature_dim=encoder.dim,
        projection_dim=head.dim,
    )
    streaming = not broadcast_from_main(lambda: is_resident(data, device, settings.resident))
    if not streaming:
        data = data.to(device)
    loader = Loader(
        data.pretrain,
        batch_size=settings.batch_size,
        seed=settings.seed,
        sampler=settings.sampler,
        noise_frac=settings.noise_frac,
        blur_frac=settings.blur_frac,
        device=device,
        streaming=streaming,
        shard=shard(),
    )
    layout = torch.channels_last if settings.channels_last else torch.contiguous_format
    encoder, head = encoder.to(device, memory_format=layout), head.to(device)
    encoder, head = convert_sync_batchnorm(encoder, device), convert_sync_batchnorm(head, device)
    step = TrainStep(
        encoder=encoder,
        head=head,
        objective=objective.to(device),
        optimizer=build_optimizer(settings.optimizer, [encoder, head, objective]),
        augmentation=augmentation,
        normalize=Normalize(data.mean, data.std, device=device, channels_last=settings.channels_last),
        autocast=precisions.autocast(precision, device),
        scaler=torch.amp.GradScaler(device.type, enabled=precision == "fp16"),
        n_views=settings.n_views,
        views_forward=settings.views_forward,
        chunk=settings.grad_cache_chunk,
        compile=settings.compile,
    )
    return Experiment(
        step=step,
        loader=loader,
        schedule=schedule,
        evaluators=evaluators,
        data=data,
        data_hash=data_hash,
        device=device,
        precision=precision,
    )


def instantiate_node(node: dict[str, Any], **wiring: Any) -> Any:
    """Instantiate one configuration node, with arguments that only the program knows."""
    return instantiate(node, **wiring, _convert_="all")


def build_evaluators(nodes: dict[str, dict[str, Any]]) -> dict[str, Evaluator]:
    """The evaluators by name, in the order in which they were chosen.

    Raises:
        ConfigError: a class that is no Evaluator.
    """
    evaluators: dict[str, Evaluator] = {}
    for name, node in nodes.items():
        evaluator = instantiate_node(node)
        if not isinstance(evaluator, Evaluator):
            kind = type(evaluator).__name__
            raise ConfigError(
                f"evaluator.{name} is a {kind}, which is no Evaluator: try class {kind}(contrastive.Evaluator)"
            )
        evaluator.check_names(list(evaluators))
        evaluators[name] = evaluator
    return evaluators


def build_optimizer(node: dict[str, Any], modules: list[torch.nn.Module]) -> torch.optim.Optimizer:
    """The optimizer of all parameters; its `initial_lr` is what schedules multiply, as in torch's own schedulers."""
    optimizer: torch.optim.Optimizer = instantiate_node(node)([p for module in modules for p in module.parameters()])
    for group in optimizer.param_groups:
        group["initial_lr"] = group["lr"]
    return optimizer


def check_optimizer(node: dict[str, Any]) -> None:
    """Raise ConfigError for settings the optimizer itself refuses, before any data is loaded."""
    try:
        instantiate_node(node)([torch.nn.Parameter(torch.zeros(1))])
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the optimizer cannot be built ({error}): try optimizer.lr=1e-3") from error


def choose_device(name: str) -> torch.device:
    """Resolve `auto` to the GPU when there is one; of several processes each has its own GPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and torch.cuda.is_available():
        name = f"cuda:{torch.cuda.current_device()}"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device must be auto, cpu, cuda or cuda:N, got {name}: try device=auto")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"there is no {device} here: try device=auto")
    return device


def check_compiler(device: torch.device) -> None:
    """Raise ConfigError where torch.compile could not build anything."""
    if device.type == "cpu" and not any(map(shutil.which, ("g++", "clang++"))):
        raise ConfigError("compile=true needs a C++ compiler on a CPU: try apt-get install g++, or compile=false")


def load_data(dataset: dict[str, Any]) -> tuple[Data, str]:
    """The data and its fingerprint; a sweep loads it once."""
    return _load_data(json.dumps(dataset, sort_keys=True))


@lru_cache(maxsize=1)
def _load_data(dataset: str) -> tuple[Data, str]:
    data = instantiate_node(json.loads(dataset))
    return data, fingerprint(data)


def is_resident(data: Data, device: torch.device, choice: bool | str) -> bool:
    """Whether to keep the images on the device; "auto" if they fit in half of the free memory."""
    if isinstance(choice, bool):
        return choice
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
    else:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return data.nbytes <= free / 2
