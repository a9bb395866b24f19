"""Where a run stands: what a checkpoint holds between and inside epochs, and how training goes on from it."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from contrastive.distributed.process import from_all, is_main, rank
from contrastive.evaluator.base import StepObserver
from contrastive.run.directory import RunDirectory
from contrastive.seeding import derive
from contrastive.training.loader import Loader
from contrastive.training.step import TrainStep
from contrastive.training.window import Window, check_weights


class ResumePoint(NamedTuple):
    """Where training starts: after whole epochs, and batches of the next one.

    If batch == len(loader), the epoch is trained and not yet evaluated.
    """

    epoch: int
    batch: int
    untrained: dict[str, float]  # metrics of the encoder before training
    seconds: float  # spent on the run before
    process: dict[str, Any] | None = None  # `process_state`, inside an epoch


@dataclass
class Checkpointer:
    """Saves what `resume` restores.

    Args:
        minutes: the most that a kill may lose of a long epoch.
    """

    step: TrainStep
    loader: Loader
    run: RunDirectory
    start: ResumePoint
    observers: Mapping[str, StepObserver]
    minutes: float

    def __post_init__(self) -> None:
        self.since = self.saved = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds spent on the run, in all sessions together."""
        return self.start.seconds + time.perf_counter() - self.since

    def is_due(self) -> bool:
        """Whether the clock asks the main process for a checkpoint."""
        return is_main() and time.perf_counter() - self.saved >= 60 * self.minutes

    def save(self, epoch: int, batch: int = 0, process: dict[str, Any] | None = None) -> None:
        """Save a checkpoint after whole epochs and batches of the next one.

        Args:
            process: `process_state`, inside an epoch; then every process must call this.
        """
        step, n = self.step, epoch * len(self.loader) + batch
        processes = None if process is None else from_all(process)
        check_weights(self.run, {"encoder": step.encoder, "head": step.head, "loss": step.objective}, step=n)
        self.run.save({
            "step": n, "epoch": epoch, "batch": batch, "process": processes, "untrained": self.start.untrained,
            "seconds": self.seconds, "observers": {name: item.state() for name, item in self.observers.items()},
            **step.state(),
        })  # fmt: skip
        self.saved = time.perf_counter()


def resume(state: dict[str, Any], step: TrainStep, observers: Mapping[str, StepObserver]) -> ResumePoint:
    """Restore a checkpoint."""
    step.load(state)
    for name, observer in observers.items():
        observer.load(state["observers"][name])
    processes = state["process"]
    process = processes[rank() % len(processes)] if processes else None  # of another number of processes: not exact
    return ResumePoint(state["epoch"], state["batch"], state["untrained"], state["seconds"], process)


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
