"""Where a run stands: what a checkpoint holds between and inside epochs, and how training goes on from it."""

import copy
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from contrastive.distributed.process import any_process, from_all, is_main, rank
from contrastive.distributed.signals import StopSignals
from contrastive.errors import ConfigError
from contrastive.seeding import derive
from contrastive.training.hook import Hook, Training
from contrastive.training.step import StepOutput, TrainStep
from contrastive.training.step_log import StepLog, check_weights

SOON, SHARE = 60, 100  # seconds; times what the last checkpoint took


class ResumePoint(NamedTuple):
    """Where training starts: after whole epochs, and batches of the next one.

    If batch == len(loader), the epoch is trained and not yet evaluated.
    """

    epoch: int
    batch: int
    seconds: float = 0.0  # spent on the run before
    process: dict[str, Any] | None = None  # `process_state`, inside an epoch


class Checkpointer(Hook):
    """Saves what `resume` restores: when it is due, at a signal, and after the last epoch.

    It is the last of the hooks, so that what it saves has seen the same steps in all of them.

    Args:
        start: where training starts.
        log: a checkpoint inside an epoch holds the steps since the last line, and none that broke down.
        signals: held back while a step is half done.
        every: epochs between checkpoints. `auto` is the end of an epoch if the last checkpoint is a minute old, or a
            hundred times as old as it took to save: a kill loses no more than that and an epoch.
        minutes: the most that a kill may lose of a long epoch.
    """

    def __init__(
        self, *, start: ResumePoint, log: StepLog, signals: StopSignals, every: int | str, minutes: float
    ) -> None:
        self.start, self.log, self.signals, self.every, self.minutes = start, log, signals, every, minutes
        self.since = self.saved = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds spent on the run, in all sessions together."""
        return self.start.seconds + time.perf_counter() - self.since

    @property
    def age(self) -> float:
        """Seconds since the last checkpoint."""
        return time.perf_counter() - self.saved

    def on_start(self, training: Training) -> None:
        self.training = training
        self.since = self.saved = time.perf_counter()

    def on_epoch_start(self, training: Training) -> None:
        """Go on with the random states of an interrupted epoch."""
        if self.start.process is not None and training.epoch == self.start.epoch:
            key = (training.loader.seed, "augmentation", training.epoch, training.batch)
            restore(self.start.process, training.rng, self.log, key=key)

    def on_step(self, training: Training, output: StepOutput) -> None:
        """Save inside an epoch if the clock asks for it; save and stop at a signal.

        Raises:
            Stop: a signal asked this process or another one to end.
        """
        is_inside = not training.ends_epoch  # else `on_epoch` saves after the evaluation, unless a signal came
        is_late = is_inside and is_main() and self.age >= 60 * self.minutes
        is_due, stops = any_process(is_late, self.signals.pending is not None)
        if is_due or stops:
            self.log.check()
            process = process_state(training.rng, self.log) if is_inside else None
            self.save(training.epoch, training.batch, process, wait=stops)
        if stops:
            self.signals.check(elsewhere=True)

    def on_epoch(self, training: Training) -> None:
        """Save after an epoch if it is due, at a signal, and after the last epoch.

        Raises:
            Stop: a signal asked this process or another one to end.
        """
        epochs = training.epoch + 1
        (stops,) = any_process(self.signals.pending is not None)
        ends = epochs == training.epochs or stops
        if self.is_due_after(epochs) or ends:
            self.save(epochs, wait=ends)
        self.signals.check(elsewhere=stops)

    def is_due_after(self, epochs: int) -> bool:
        """Whether to save after so many whole epochs; every process must call this and gets the same answer."""
        if self.every != "auto":
            return epochs % int(self.every) == 0
        writer = self.training.run.writer
        took = 0.0 if writer is None else writer.seconds
        return any_process(is_main() and self.age >= min(SOON, SHARE * took))[0]

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
        step, loader, run = self.training.step, self.training.loader, self.training.run
        n = epoch * len(loader) + batch
        processes = None if process is None else from_all(process)
        check_weights(run, {"encoder": step.encoder, "head": step.head, "loss": step.objective}, step=n)
        if is_main():
            states = {name: state for name, hook in self.training.hooks.items() if (state := hook.state_dict())}
            run.save(on_host({
                "step": n, "epoch": epoch, "batch": batch, "process": processes, "seconds": self.seconds,
                "hooks": states, **step.state(),
            }, loader.device))  # fmt: skip
        self.saved = time.perf_counter()
        if wait:
            run.wait()


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


def resume(state: dict[str, Any], step: TrainStep, hooks: Mapping[str, Hook]) -> None:
    """Restore the step and the hooks of a checkpoint; a hook that it does not know starts anew.

    Raises:
        ConfigError: it has not the parts that this code restores.
    """
    try:
        step.load(state)
        saved = state["hooks"]
        for name in hooks.keys() & saved.keys():
            hooks[name].load_state_dict(saved[name])
    except (AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:  # other code, or by hand
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"the checkpoint does not fit this code ({type(error).__name__}: {reason}): "
            "try the code that wrote it, or rerun=true to start the run over"
        ) from error


def resume_point(state: dict[str, Any]) -> ResumePoint:
    """Where a checkpoint goes on."""
    processes = state["process"]
    process = processes[rank() % len(processes)] if processes else None  # of another number of processes: not exact
    return ResumePoint(state["epoch"], state["batch"], state["seconds"], process)


def process_state(rng: torch.Generator, log: StepLog) -> dict[str, Any]:
    """What each process has of its own inside an epoch: random states and the window of the log."""
    state = {"device": rng.device.type, "augmentation": rng.get_state(), "layers": torch.get_rng_state()}
    if rng.device.type == "cuda":
        state["cuda_layers"] = torch.cuda.get_rng_state(rng.device)
    elif rng.device.type == "mps":
        state["mps_layers"] = torch.mps.get_rng_state()
    return {**state, "window": log.state()}


def restore(state: dict[str, Any], rng: torch.Generator, log: StepLog, *, key: tuple[object, ...]) -> None:
    """Restore `process_state`. Another kind of device cannot go on with the draws: it starts new ones from `key`."""
    log.load(state["window"])
    torch.set_rng_state(state["layers"])
    if state["device"] != rng.device.type:
        rng.manual_seed(derive(*key))
        return
    rng.set_state(state["augmentation"])
    if "cuda_layers" in state:
        torch.cuda.set_rng_state(state["cuda_layers"], rng.device)
    if "mps_layers" in state:
        torch.mps.set_rng_state(state["mps_layers"])
