"""SimCLR training end to end: training.py WHO DEPTH WIDTH BATCH PRECISION STEPS.

WHO is lightly, ours, compiled, one_thread or reproducible (on one thread, too).
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from measure import Clock, report
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torch.utils.flop_counter import FlopCounterMode

import contrastive.config.compose  # noqa: F401  (registers the resolver)
from contrastive.config.settings import Settings
from contrastive.dataset.splits import channel_stats, name_splits
from contrastive.distributed.hardware import fix_instructions
from contrastive.encoder.resnet import ResNet
from contrastive.experiment.build import Experiment, build
from contrastive.seeding import generator
from contrastive.training.precision import autocast, set_tf32
from contrastive.types import Data, Split

WARM_UP = 5  # on a GPU the fourth step is captured as a graph
CONFIGS = Path(__file__).resolve().parents[2] / "configs"
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def pictures(n: int) -> list[Image.Image]:
    """Smooth colored noise of 32 pixels."""
    small = np.random.default_rng(0).integers(0, 256, (n, 8, 8, 3), dtype=np.uint8)
    return [Image.fromarray(x).resize((32, 32), Image.Resampling.BICUBIC) for x in small]


@contextmanager
def host_syncs() -> Iterator[list[warnings.WarningMessage]]:
    """A list that grows whenever the host waits for the GPU."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if DEVICE.type == "cuda":
            torch.cuda.set_sync_debug_mode("warn")
        yield caught
        if DEVICE.type == "cuda":
            torch.cuda.set_sync_debug_mode("default")


def as_tensor(images: list[Image.Image]) -> Tensor:
    """The pictures as (N, 3, 32, 32) uint8."""
    return torch.from_numpy(np.stack([np.asarray(image) for image in images])).permute(0, 3, 1, 2).contiguous()


def noise(*, n: int) -> Data:
    """A dataset in memory: n training images and two to test, in two classes."""
    image = as_tensor(pictures(n))
    train, test = Split(image, torch.arange(n) % 2), Split(image[:2], torch.arange(2))
    return name_splits(train, test, classes=("0", "1"), hold_out=False, stats=channel_stats(image))


def build_experiment(n: int, words: list[str]) -> Experiment:
    """This project's SimCLR on n images, with lightly's augmentation: strong color jitter, no blur."""
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        cfg = compose(
            "train",
            [
                "dataset=image_folder",  # its recipe, not its files
                *(f"augmentation.ops.jitter.{key}=0.8" for key in ("brightness", "contrast", "saturation")),
                "augmentation.ops.jitter.hue=0.2",
                "augmentation.ops.blur=null",
                "optimizer=sgd",
                *words,
            ],
        )
    return build(replace(Settings.from_config(cfg), dataset={"_target_": "training.noise", "n": n}))


def ours(depth: int, width: int, *, batch: int, precision: str, steps: int, compiled: bool) -> None:
    """This project's training step, and the share of augmentation in it unless it is compiled."""
    words = [f"encoder.depth={depth}", f"encoder.width={width}", f"batch_size={batch}", f"precision={precision}"]
    experiment = build_experiment((WARM_UP + 1 + steps) * batch, [*words, f"compile={compiled}"])
    step, rng = experiment.step, generator(experiment.device, "bench")
    batches = experiment.loader.epoch(0)
    first = next(batches)
    step.encoder.train()
    with FlopCounterMode(display=False) as counter:
        step.forward(step.views(first, rng))["projections"].float().sum().backward()
    for images in islice(batches, WARM_UP):
        step(images, rng)
    clock, done = Clock(), 0
    clock.start()
    with host_syncs() as waits:
        for images in islice(batches, steps):
            loss = step(images, rng).loss
            done += 1
    loss.item()
    time = clock.stop()
    metrics = {"host_syncs": len(waits) / done} if DEVICE.type == "cuda" else {}
    if not compiled:
        clock.start()
        for _ in range(5):
            step.views(first, rng)
        metrics["augmentation_share"] = clock.stop()["seconds"] / 5 / (time["seconds"] / done)
    report(views=2 * batch * done, flops=counter.get_total_flops() * done, **metrics, **time)


class Views(Dataset[Any]):
    """Pictures in memory, as torchvision's CIFAR10 holds them."""

    def __init__(self, images: list[Image.Image], transform: Callable[[Image.Image], Any]) -> None:
        self.images, self.transform = images, transform

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.images[index])


def lightly(depth: int, width: int, *, batch: int, precision: str, steps: int) -> None:
    """Its documented PyTorch SimCLR loop, with this encoder, and under autocast for bf16.

    On a GPU float32 is float32, as in the other contestants: torch by itself would let convolutions, alone, use TF32.
    """
    from lightly.loss import NTXentLoss
    from lightly.models.modules import SimCLRProjectionHead
    from lightly.transforms.simclr_transform import SimCLRTransform

    set_tf32(precision)
    encoder = ResNet(depth=depth, width=width, stem="small")
    model = torch.nn.Sequential(encoder, SimCLRProjectionHead(encoder.dim, encoder.dim, 128)).to(DEVICE)
    workers = 2 if DEVICE.type == "cpu" else 16
    loader = DataLoader(
        Views(pictures((WARM_UP + 2 + steps) * batch), SimCLRTransform(input_size=32, gaussian_blur=0.0)),
        batch_size=batch,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
    )
    criterion, optimizer = NTXentLoss(), torch.optim.SGD(model.parameters(), lr=0.06)
    clock, total, done = Clock(), torch.zeros((), device=DEVICE), 0
    batches = iter(loader)
    clock.pids = [worker.pid for worker in batches._workers]  # type: ignore[attr-defined]
    for i, (x0, x1) in enumerate(islice(batches, WARM_UP + steps)):
        if i == WARM_UP:
            clock.start()
        with autocast(precision, DEVICE)():
            z0, z1 = model(x0.to(DEVICE)), model(x1.to(DEVICE))
        loss = criterion(z0.float(), z1.float())
        total += loss.detach()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        done += i >= WARM_UP
    total.item()
    report(views=2 * batch * done, **clock.stop())


if __name__ == "__main__":
    who, depth, width, batch, precision, steps = sys.argv[1:7]
    if who == "lightly":
        lightly(int(depth), int(width), batch=int(batch), precision=precision, steps=int(steps))
    else:
        if who == "reproducible":
            fix_instructions()
        if who in ("one_thread", "reproducible"):
            torch.set_num_threads(1)
        compiled = who == "compiled"
        ours(int(depth), int(width), batch=int(batch), precision=precision, steps=int(steps), compiled=compiled)
