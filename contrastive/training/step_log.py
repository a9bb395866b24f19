"""The log of steps: a line of metrics every so many batches, and the stop where training has broken down."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median_low
from typing import Any

import torch
from torch import Tensor, nn

from contrastive.config.messages import is_out_of_memory
from contrastive.distributed.process import all_reduce_sum, world_size
from contrastive.errors import ConfigError
from contrastive.run.directory import RunDirectory
from contrastive.training.diagnostics import diagnose
from contrastive.training.hook import Hook, Training
from contrastive.training.step import StepOutput

ABSURD = 1e6  # times the usual gradient norm, that of the steps around or of the last check, or 1 if that is less
ADVICE = "try a lower optimizer.lr with another hydra.run.dir=PATH, or precision=fp32"


class StepLog(Hook):
    """Logs loss, gradient norm, learning rate, speed and diagnostics of the steps since the last line.

    Its state is part of `process_state`, because each process has its own.

    Args:
        every: batches between lines; the last batch of an epoch always has one.
    """

    def __init__(self, *, every: int) -> None:
        self.every = every
        self.usual = math.inf  # gradient norm at the last check: with log_every=1 there are no steps around

    def on_start(self, training: Training) -> None:
        self.training = training
        self.chance = training.step.chance(training.loader.batch_size, training.loader.device)

    def on_epoch_start(self, training: Training) -> None:
        self._reset()

    def _reset(self) -> None:
        self.total, self.since = torch.zeros(2, device=self.training.loader.device), time.perf_counter()
        self.steps: list[Tensor] = []
        self.n_restored = 0  # of the steps, those that an earlier process took

    def on_step(self, training: Training, output: StepOutput) -> None:
        """Count the step; if a line is due, check and log the steps since the last one.

        Raises:
            ConfigError: loss or gradient are no longer finite, or the gradient is absurdly large.
        """
        self.steps.append(torch.stack([output.loss, output.grad_norm]))
        self.total = self.total + self.steps[-1]
        if training.batch % self.every == 0 or training.ends_epoch:
            self.check()
            metrics = self._means() | self.chance | {"train/lr": training.step.optimizer.param_groups[0]["lr"]}
            with recorded_failure(training.run):
                metrics |= diagnose(training.step.objective, output)
            training.log(metrics)

    def check(self) -> None:
        """Stop at the first step whose loss or gradient is not finite, or whose gradient is absurdly large; waits for
        the device.

        With a loss scaler an infinite gradient only means that it skips the step.

        Raises:
            ConfigError: there is such a step; failure.json describes it.
        """
        if not self.steps:
            return
        values = (all_reduce_sum(torch.stack(self.steps)) / world_size()).tolist()
        finite = [grad_norm for _, grad_norm in values if math.isfinite(grad_norm)]
        median = median_low(finite or [1.0])
        limit = ABSURD * max(1.0, min(median, self.usual))
        for i, (loss, grad_norm) in enumerate(values):
            is_skipped = self.training.step.scaler.is_enabled() and not math.isfinite(grad_norm)
            if not math.isfinite(loss) or not (is_skipped or grad_norm <= limit):
                self._stop(self.training.batch - len(values) + i, values[: i + 1])
        if finite:
            self.usual = median

    def _stop(self, batch: int, values: list[list[float]]) -> None:
        """Write failure.json and raise.

        Args:
            batch: the one at fault, from 0.
            values: [loss, gradient norm] of the steps up to it, from the last log line on.
        """
        loader, run, epoch = self.training.loader, self.training.run, self.training.epoch
        loss, grad_norm = values[-1]
        index = loader.indices(epoch, batch)
        what, value = ("gradient", grad_norm) if math.isfinite(loss) else ("loss", loss)
        run.fail({
            "reason": f"{what} of {value:.0e}" if math.isfinite(value) else f"{what} not finite",
            "epoch": epoch + 1,
            "batch": batch + 1,
            "step": epoch * len(loader) + batch + 1,
            "loss": [str(value) for value, _ in values],
            "grad_norm": [str(value) for _, value in values],
            "indices": index.tolist(),
            "labels": loader.split.label[index].tolist(),
            "try": ADVICE,
        })  # fmt: skip
        raise ConfigError(
            f"the {what} became {value} in epoch {epoch + 1}, batch {batch + 1}; the last checkpoint is kept and "
            f"{run.path / 'failure.json'} describes the batch: {ADVICE}"
        )

    def _means(self) -> dict[str, float]:
        """The means over steps and processes; starts the next window."""
        n, training = len(self.steps), self.training
        views = training.loader.views_per_step(training.step.n_views)
        loss, grad_norm = (all_reduce_sum(self.total) / (n * world_size())).tolist()  # waits for the device
        views_per_s = (n - self.n_restored) * views / (time.perf_counter() - self.since)
        self._reset()
        return {"train/loss": loss, "train/grad_norm": grad_norm, "time/views_per_s": views_per_s}

    def state(self) -> dict[str, Any]:
        """What `load` restores; the sum is stored because adding up in another order would round differently."""
        return {"total": self.total.cpu(), "steps": [step.cpu() for step in self.steps], "usual": self.usual}

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self.total = state["total"].to(self.training.loader.device)
        self.steps = [step.to(self.training.loader.device) for step in state["steps"]]
        self.n_restored = len(self.steps)
        self.usual = state["usual"]


def check_weights(run: RunDirectory, modules: dict[str, nn.Module], *, step: int) -> None:
    """Raise ConfigError, after writing failure.json, if a parameter is not finite: it must not reach a checkpoint."""
    named = {f"{key}.{name}": value for key, module in modules.items() for name, value in module.named_parameters()}
    finite = torch.stack([value.isfinite().all() for value in named.values()]).tolist()  # waits for the device once
    broken = [name for name, is_finite in zip(named, finite, strict=True) if not is_finite]
    if broken:
        run.fail({"reason": "weights not finite", "step": step, "weights": broken, "try": ADVICE})
        raise ConfigError(
            f"{len(broken)} weights, {broken[0]} first, are no longer finite after step {step}; the last checkpoint is "
            f"kept: {ADVICE}"
        )


@contextmanager
def recorded_failure(run: RunDirectory) -> Iterator[None]:
    """Write failure.json about an exception of the body, which calls the loss, unless memory, a file, the GPU or
    another process may be why: a run that the machine ended says nothing about its loss."""
    try:
        yield
    except Exception as error:
        is_of_machine = isinstance(error, OSError) or is_out_of_memory(error) or "CUDA error" in str(error)
        if not is_of_machine and world_size() == 1:
            run.fail({"reason": " ".join(f"{type(error).__name__}: {error}".split())})
        raise
