"""One epoch of training, and what it logs."""

import math
import time
from collections.abc import Callable, Collection
from typing import Any, Protocol

import torch
from torch import Tensor

from contrastive.distributed.process import all_reduce_sum, gather, rank, world_size
from contrastive.evaluator.base import StepObserver
from contrastive.run.directory import RunDirectory
from contrastive.seeding import derive, generator
from contrastive.training.diagnostics import diagnose
from contrastive.training.failure import stop_at_bad_step
from contrastive.training.loader import Loader
from contrastive.training.step import StepOutput, TrainStep

AfterStep = Callable[[int, Callable[[], dict[str, Any]]], None]


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
    start: int = 0,
    state: dict[str, Any] | None = None,
    after_step: AfterStep = lambda batch, state: None,
) -> None:
    """Train for one pass over the data.

    Every random draw depends on (seed, purpose, epoch) alone, so that an epoch is the same whether or not it follows
    an interruption. Inside an epoch, the generators' states are part of the checkpoint.

    Args:
        schedule: (epoch, epochs) → factor on every group's `initial_lr`.
        log_every: batches between log lines; the last batch always logs.
        observers: read-outs that learn from the features of each batch.
        start, state: the batch to go on with, and what this process had then; see `after_step`.
        after_step: called as (batches done, function that returns this process's state) after each batch but the
            last, where it may save a checkpoint.

    Raises:
        ConfigError: loss or gradient are no longer finite. The last checkpoint stays.
    """
    torch.manual_seed(derive(loader.seed, "layers", epoch, *([rank()] if rank() > 0 else [])))
    rng = generator(loader.device, loader.seed, "augmentation", epoch)
    step.encoder.train()
    step.head.train()
    window = Window(loader.views_per_step(step.n_views), loader.device)
    if state is not None:
        restore(state, rng, window, key=(loader.seed, "augmentation", epoch, start))

    def check() -> None:
        check_window(run, loader, window, epoch=epoch, done=i + 1, output=output, fp16=step.scaler.is_enabled())

    def current() -> dict[str, Any]:
        """The state of this process after the newest step, which is checked first."""
        check()
        return process_state(rng, window)

    for i, batch in enumerate(loader.epoch(epoch, start=start), start):
        factor = schedule(epoch + i / len(loader), epochs)
        for group in step.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor
        output: StepOutput = step(batch, rng)
        window.add(output.loss, output.grad_norm)
        for observer in observers:
            observer.observe(gather(output.main.outputs["features"]), gather(output.main.label))
        progress.update()
        if (i + 1) % log_every == 0 or i + 1 == len(loader):
            check()
            lr = {"train/lr": step.optimizer.param_groups[0]["lr"]}
            metrics = window.close() | lr | diagnose(step.objective, output)
            run.log(epoch * len(loader) + i + 1, epoch + (i + 1) / len(loader), metrics)
            progress.show(metrics)
        if i + 1 < len(loader):
            after_step(i + 1, current)


class Window:
    """Loss and gradient norm of each step since the last log line.

    Args:
        views_per_step: images that go through the network in a step, for the throughput.
    """

    def __init__(self, views_per_step: int, device: torch.device) -> None:
        self.views_per_step, self.device = views_per_step, device
        self._reset()

    def _reset(self) -> None:
        self.total, self.since = torch.zeros(2, device=self.device), time.perf_counter()
        self.steps: list[Tensor] = []

    def add(self, loss: Tensor, grad_norm: Tensor) -> None:
        self.steps.append(torch.stack([loss, grad_norm]))
        self.total = self.total + self.steps[-1]

    def values(self) -> list[list[float]]:
        """[loss, gradient norm] of each step so far, the mean over processes; waits for the device."""
        if not self.steps:
            return []
        means: list[list[float]] = (all_reduce_sum(torch.stack(self.steps)) / world_size()).tolist()
        return means

    def close(self) -> dict[str, float]:
        """The means over steps and processes; starts the next window."""
        n = len(self.steps)
        loss, grad_norm = (all_reduce_sum(self.total) / (n * world_size())).tolist()
        views_per_s = n * self.views_per_step / (time.perf_counter() - self.since)
        self._reset()
        return {"train/loss": loss, "train/grad_norm": grad_norm, "time/views_per_s": views_per_s}

    def state(self) -> dict[str, Any]:
        """What `load` restores; the sum is stored because adding up in another order would round differently."""
        return {"total": self.total.cpu(), "steps": [step.cpu() for step in self.steps]}

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self.total = state["total"].to(self.device)
        self.steps = [step.to(self.device) for step in state["steps"]]


def check_window(
    run: RunDirectory, loader: Loader, window: Window, *, epoch: int, done: int, output: StepOutput, fp16: bool
) -> None:
    """Stop with a ConfigError at the first step of the window whose loss or gradient is not finite.

    Args:
        done: batches of the epoch so far. output: of the last one.
        fp16: with a loss scaler, which skips steps of infinite gradient.
    """
    values = window.values()
    bad = first_bad_step(values, allow_infinite_gradient=fp16)
    if bad is not None:
        batch = done - len(values) + bad
        stop_at_bad_step(run, loader, epoch=epoch, batch=batch, values=values[: bad + 1], output=output)


def process_state(rng: torch.Generator, window: Window) -> dict[str, Any]:
    """What each process has of its own inside an epoch: random states and the window of the log."""
    state = {"device": rng.device.type, "augmentation": rng.get_state(), "layers": torch.get_rng_state()}
    if rng.device.type == "cuda":
        state["cuda_layers"] = torch.cuda.get_rng_state(rng.device)
    return {**state, "window": window.state()}


def restore(state: dict[str, Any], rng: torch.Generator, window: Window, *, key: tuple[object, ...]) -> None:
    """Restore `process_state`. Another kind of device cannot go on with the draws: it starts new ones from `key`."""
    window.load(state["window"])
    torch.set_rng_state(state["layers"])
    if state["device"] != rng.device.type:
        rng.manual_seed(derive(*key))
        return
    rng.set_state(state["augmentation"])
    if "cuda_layers" in state:
        torch.cuda.set_rng_state(state["cuda_layers"], rng.device)


def first_bad_step(values: list[list[float]], *, allow_infinite_gradient: bool) -> int | None:
    """The first step whose loss or gradient is not finite; None if there is none.

    Under fp16 an infinite gradient only means that the scaler skipped the step.
    """
    for i, (loss, grad_norm) in enumerate(values):
        if not math.isfinite(loss) or not (allow_infinite_gradient or math.isfinite(grad_norm)):
            return i
    return None
