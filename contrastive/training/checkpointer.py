"""Where a run stands: what a checkpoint holds between and inside epochs, and how training goes on from it."""

import copy
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from contrastive.distributed.process import any_process, from_all, is_main, rank
from contrastive.evaluator.base import StepObserver
from contrastive.run.directory import RunDirectory
from contrastive.seeding import derive
from contrastive.training.loader import Loader
from contrastive.training.step import TrainStep
from contrastive.training.window import Window, check_weights

SOON, SHARE = 60, 100  # seconds; times what the last checkpoint took


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
        every: epochs between checkpoints. `auto` is the end of an epoch if the last checkpoint is a minute old, or a
            hundred times as old as it took to save: a kill loses no more than that and an epoch.
        minutes: the most that a kill may lose of a long epoch.
    """

    step: TrainStep
    loader: Loader
    run: RunDirectory
    start: ResumePoint
    observers: Mapping[str, StepObserver]
    every: int | str
    minutes: float

    def __post_init__(self) -> None:
        self.since = self.saved = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds spent on the run, in all sessions together."""
        return self.start.seconds + time.perf_counter() - self.since

    def is_due(self) -> bool:
        """Whether the clock asks the main process for a checkpoint inside an epoch."""
        return is_main() and time.perf_counter() - self.saved >= 60 * self.minutes

    def is_due_after(self, epochs: int) -> bool:
        """Whether to save after so many whole epochs; every process must call this and gets the same answer."""
        if self.every != "auto":
            return epochs % int(self.every) == 0
        took = 0.0 if self.run.writer is None else self.run.writer.seconds
        return any_process(is_main() and time.perf_counter() - self.saved >= min(SOON, SHARE * took))[0]

    def save(self, epoch: int, batch: int = 0, process: dict[str, Any] | None = None, *, wait: bool = False) -> None:
        """Save a checkpoint after whole epochs and batches of the next one.

        Its tensors are copied here; it is hashed and written while training goes on.

        Args:
            process: `process_state`, inside an epoch; then every process must call this.
            wait: return when it is on the disk.

        Raises:
            ConfigError: a weight is not finite. OSError: this checkpoint, with `wait`, or the one before could not be
                written.
        """
        step, n = self.step, epoch * len(self.loader) + batch
        processes = None if process is None else from_all(process)
        check_weights(self.run, {"encoder": step.encoder, "head": step.head, "loss": step.objective}, step=n)
        if is_main():
            self.run.save(on_host({
                "step": n, "epoch": epoch, "batch": batch, "process": processes, "untrained": self.start.untrained,
                "seconds": self.seconds, "observers": {name: item.state() for name, item in self.observers.items()},
                **step.state(),
            }, self.loader.device))  # fmt: skip
        self.saved = time.perf_counter()
        if wait:
            self.run.wait()


def on_host(state: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """A copy of nested containers that training no longer changes, its tensors on the CPU.

    Those of a GPU go to pinned memory, so that the host waits for `device` once and not for each of them.
    """
    copied: dict[str, Any] = _copy(state)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return copied


def _copy(node: Any) -> Any:
    if isinstance(node, Tensor):
        return torch.empty_like(node, device="cpu", pin_memory=node.is_cuda).copy_(node, non_blocking=True)
    if isinstance(node, dict):
        copied = copy.copy(node)  # a module's has the versions of its layers as an attribute
        copied.update((key, _copy(value)) for key, value in node.items())
        return copied
    return type(node)(map(_copy, node)) if isinstance(node, list | tuple) else node


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
