"""From a configuration to objects, in dependency order: the only library file that knows Hydra.

Whatever can be refused without data is refused before any is loaded.
"""

import json
import os
import shutil
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from hydra.utils import instantiate
from torch import Tensor

from contrastive.augmentation._functional import blur_uint8
from contrastive.dataset._splits import fingerprint
from contrastive.distributed.batch_norm import convert_sync_batchnorm
from contrastive.distributed.process import broadcast_from_main, shard
from contrastive.errors import ConfigError
from contrastive.evaluator.base import Evaluator
from contrastive.program.encoder_output import check_encoder_output, image_size
from contrastive.seeding import derive
from contrastive.training import precision as precisions
from contrastive.training.loader import Loader
from contrastive.training.objective import Objective
from contrastive.training.step import Trainer
from contrastive.types import Data


@dataclass(frozen=True)
class Built:
    """A program ready to run."""

    trainer: Trainer
    loader: Loader
    evaluator: Evaluator
    device: torch.device
    precision: str
    data_hash: str


class Normalize:
    """uint8 or [0, 1] images (N, 3, h, w) → float32, standardized per channel, in the memory format asked for."""

    def __init__(
        self, mean: tuple[float, ...], std: tuple[float, ...], device: torch.device, *, channels_last: bool
    ) -> None:
        self.mean = torch.tensor(mean, device=device)[:, None, None]
        self.std = torch.tensor(std, device=device)[:, None, None].clamp(min=1e-6)
        self.format = torch.channels_last if channels_last else torch.contiguous_format

    def __call__(self, x: Tensor) -> Tensor:
        x = x / 255 if x.dtype == torch.uint8 else x
        return ((x - self.mean) / self.std).contiguous(memory_format=self.format)


def choose_device(name: str) -> torch.device:
    """`auto` is the GPU when there is one; of several processes each has its own."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and torch.cuda.is_available():
        name = f"cuda:{torch.cuda.current_device()}"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device must be auto, cpu, cuda or cuda:N, got {name}: try device=auto")
    assert device is not None
    if device.type != "cpu" and not (device.index or 0) < torch.cuda.device_count():
        raise ConfigError(f"there is no {device} here: try device=auto")
    return device


@lru_cache(maxsize=1)
def _load(dataset: str) -> tuple[Data, str]:
    data = instantiate(json.loads(dataset), _convert_="all")
    return data, fingerprint(data)


def load_data(dataset: dict[str, Any]) -> tuple[Data, str]:
    """The data and its fingerprint; a sweep loads it once."""
    return _load(json.dumps(dataset, sort_keys=True))


def build(cfg: dict[str, Any]) -> Built:
    """Build everything a run needs.

    Raises:
        ConfigError: a setting, or a combination of settings, that cannot be used.
    """
    device = choose_device(cfg["device"])
    precision = precisions.choose(cfg["precision"], device)
    if cfg["compile"]:
        check_compiler(device)
    torch.manual_seed(derive(cfg["seed"], "weights"))
    loss = make(cfg["loss"])
    regularizers = [make(cfg["regularizer"])] if cfg["regularizer"] else []
    augmentation, schedule, probe = (make(cfg[key]) for key in ("augmentation", "schedule", "probe"))
    for term in (loss, *regularizers):
        term.check_config(batch_size=cfg["batch_size"])
    encoder = make(cfg["encoder"])
    check_encoder_output(encoder, image_size(cfg["dataset"]))
    head = make(cfg["head"], in_dim=encoder.dim)
    check_optimizer(cfg["optimizer"])

    broadcast_from_main(lambda: (load_data(cfg["dataset"]), None)[1])  # the others find its cache
    data, data_hash = load_data(cfg["dataset"])
    labeled, biased = bool((data.pretrain.label >= 0).all()), data.pretrain.bias is not None
    for term in (loss, *regularizers):
        term.check_batch(batch_size=cfg["batch_size"], n_views=cfg["n_views"], has_label=labeled, has_bias=biased)
    objective = Objective(
        loss,
        regularizers,
        train=data.pretrain,
        n_classes=len(data.classes),
        feature_dim=encoder.dim,
        projection_dim=head.dim,
    )
    loader = Loader(
        data.pretrain,
        batch_size=cfg["batch_size"],
        seed=cfg["seed"],
        sampler=cfg["sampler"],
        noise_frac=cfg["noise_frac"],
        blur_frac=cfg["blur_frac"],
        blur=blur_uint8,
        device=device,
        streaming=not broadcast_from_main(lambda: resident(data, device, cfg["resident"])),
        share=shard(),
    )

    if not loader.streaming:
        data = data.to(device)
        loader.split = data.pretrain
    layout = torch.channels_last if cfg["channels_last"] else torch.contiguous_format
    encoder, head, objective = encoder.to(device, memory_format=layout), head.to(device), objective.to(device)
    encoder, head = convert_sync_batchnorm(encoder, device), convert_sync_batchnorm(head, device)
    optimizer = make(cfg["optimizer"])([*encoder.parameters(), *head.parameters(), *objective.parameters()])
    normalize = Normalize(data.mean, data.std, device, channels_last=cfg["channels_last"])
    autocast = precisions.autocast(precision, device)
    trainer = Trainer(
        encoder,
        head,
        objective,
        optimizer,
        schedule,
        augmentation,
        normalize,
        autocast,
        torch.amp.GradScaler(device.type, enabled=precision == "fp16"),
        cfg["n_views"],
        cfg["views_forward"],
        cfg["epochs"],
        cfg["seed"],
        cfg["grad_cache_chunk"],
        shard(),
    )
    if cfg["compile"]:
        compile_pieces(trainer)
    evaluator = Evaluator(data, normalize, autocast, probe, cfg["knn"]["k"], cfg["knn"]["temperature"])
    return Built(trainer, loader, evaluator, device, precision, data_hash)


def resident(data: Data, device: torch.device, asked: bool | str) -> bool:
    """Whether the images live in the device's memory: as asked, or (`auto`) where half of what is free holds them."""
    if isinstance(asked, bool):
        return asked
    free = (
        torch.cuda.mem_get_info(device)[0]
        if device.type == "cuda"
        else os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    )
    return data.nbytes <= free / 2


def check_compiler(device: torch.device) -> None:
    """Raise ConfigError where torch.compile could not build anything."""
    if device.type != "cuda" and not any(map(shutil.which, ("g++", "clang++"))):
        raise ConfigError("compile=true needs a C++ compiler on a CPU: try apt-get install g++, or compile=false")


def compile_pieces(trainer: Trainer) -> None:
    """torch.compile the augmentation, the encoder with its head, and the objective: the same step in fewer kernels.

    Pieces, because what is drawn, the optimizer and the logging gain nothing, and because a sweep over losses compiles
    the expensive piece, the encoder, once.
    """
    augmentation = trainer.augmentation
    augmentation.apply = torch.compile(augmentation.apply, dynamic=False)
    trainer.encode = torch.compile(trainer.encode, dynamic=False)  # type: ignore[method-assign]
    trainer.objective.compile(dynamic=False)


def check_optimizer(node: dict[str, Any]) -> None:
    """Raise ConfigError for settings the optimizer itself refuses, before any data is loaded."""
    try:
        make(node)([torch.nn.Parameter(torch.zeros(1))])
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the optimizer cannot be built ({error}): try optimizer.lr=1e-3") from error


def make(node: dict[str, Any], **wiring: Any) -> Any:
    """Instantiate one configuration node, with what only the program knows."""
    return instantiate(node, **wiring, _convert_="all")
