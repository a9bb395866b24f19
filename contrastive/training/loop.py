"""One epoch of training, and what it logs."""

import math
import time
from collections.abc import Callable, Collection
from typing import Protocol

import torch
from torch import Tensor

from contrastive.distributed.process import all_reduce_sum, gather, rank, world_size
from contrastive.errors import ConfigError
from contrastive.evaluator.base import StepObserver
from contrastive.run.directory import RunDirectory
from contrastive.seeding import derive, generator
from contrastive.training.diagnostics import diagnose
from contrastive.training.loader import Loader
from contrastive.training.step import TrainStep

ADVICE = "try a lower optimizer.lr with another hydra.run.dir=PATH, or precision=fp32"


class Progress(Protocol):
    """Where the loop tells how far it is."""

    def update(self) -> None:
        """A batch is done."""

    def show(self, metrics: dict[str, float]) -> None:
        """There are new metrics."""


def train_epoch(
    step: TrainStep,
    loader: Loader,
    run: RunDirectory,
    *,
    epoch: int,
    epochs: int,
    schedule: Callable[[float, int], float],
    log_every: int,
    progress: Progress,
    observers: Collection[StepObserver] = (),
) -> None:
    """Train for one pass over the data.

    Every random draw depends on (seed, purpose, epoch) alone, so that an epoch is the same whether or not it follows
    an interruption.

    Args:
        schedule: (epoch, epochs) → factor on every group's `initial_lr`.
        log_every: batches between log lines; the last batch always logs.
        observers: read-outs that learn from the features of each batch.

    Raises:
        ConfigError: loss or gradient are no longer finite. The last checkpoint stays.
    """
    torch.manual_seed(derive(loader.seed, "layers", epoch, *([rank()] if rank() > 0 else [])))
    rng = generator(loader.device, loader.seed, "augmentation", epoch)
    step.encoder.train()
    step.head.train()
    window = _Window(loader, step.n_views)
    for i, batch in enumerate(loader.epoch(epoch)):
        factor = schedule(epoch + i / len(loader), epochs)
        for group in step.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor
        output = step(batch, rng)
        window.add(output.loss, output.grad_norm)
        for observer in observers:
            observer.observe(gather(output.main.outputs["features"]), gather(output.main.label))
        progress.update()
        if (i + 1) % log_every == 0 or i + 1 == len(loader):
            metrics = window.close()
            _check_finite(metrics, epoch=epoch, allow_infinite_gradient=step.scaler.is_enabled())
            lr = step.optimizer.param_groups[0]["lr"]
            metrics |= {"train/lr": lr, **diagnose(step.objective, output)}
            run.log(epoch * len(loader) + i + 1, epoch + (i + 1) / len(loader), metrics)
            progress.show(metrics)


class _Window:
    """Means over the steps since the last log line, kept on the device until they are read."""

    def __init__(self, loader: Loader, n_views: int) -> None:
        self.views_per_step, self.device = loader.views_per_step(n_views), loader.device
        self._reset()

    def _reset(self) -> None:
        self.total, self.n, self.since = torch.zeros(2, device=self.device), 0, time.perf_counter()

    def add(self, loss: Tensor, grad_norm: Tensor) -> None:
        self.total, self.n = self.total + torch.stack([loss, grad_norm]), self.n + 1

    def close(self) -> dict[str, float]:
        """The means over steps and processes; starts the next window."""
        loss, grad_norm = (all_reduce_sum(self.total) / (self.n * world_size())).tolist()
        views_per_s = self.n * self.views_per_step / (time.perf_counter() - self.since)
        self._reset()
        return {"train/loss": loss, "train/grad_norm": grad_norm, "time/views_per_s": views_per_s}


def _check_finite(metrics: dict[str, float], *, epoch: int, allow_infinite_gradient: bool) -> None:
    """Under fp16 an infinite gradient only means that the scaler skipped the step."""
    loss, grad_norm = metrics["train/loss"], metrics["train/grad_norm"]
    if not math.isfinite(loss):
        raise ConfigError(f"the loss became {loss} in epoch {epoch + 1}: {ADVICE}")
    if not (math.isfinite(grad_norm) or allow_infinite_gradient):
        raise ConfigError(f"the gradient became {grad_norm} in epoch {epoch + 1}: {ADVICE}")
