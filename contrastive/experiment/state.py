"""When a run saves its state, what the state is, how a run goes on from it, and the weights it leaves."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from contrastive.config.messages import is_out_of_memory, out_of_memory
from contrastive.config.settings import Settings
from contrastive.distributed.process import any_process, from_all, is_main, rank
from contrastive.distributed.signals import Stop, StopSignals
from contrastive.errors import ConfigError
from contrastive.evaluator.base import StepObserver
from contrastive.experiment.build import Experiment
from contrastive.experiment.components import feature
from contrastive.run.directory import RunDirectory
from contrastive.run.weights import save_run_weights
from contrastive.training.failure import check_weights


class Start(NamedTuple):
    """Where training starts: whole epochs, batches of the next one, and what was measured before.

    `batch` may be all batches of an epoch: trained, and not yet evaluated. `process` is the state that `train_epoch`
    goes on with inside an epoch.
    """

    epoch: int
    batch: int
    untrained: dict[str, float]
    seconds: float
    process: dict[str, Any] | None = None


class Saver:
    """Saves checkpoints between epochs and, where the clock or a signal asks for it, between batches.

    Args:
        minutes: the most that a kill may lose of a long epoch.
        signals: those held back while an epoch is trained.
    """

    def __init__(
        self,
        experiment: Experiment,
        run: RunDirectory,
        observers: dict[str, StepObserver],
        *,
        start: Start,
        minutes: float,
        signals: StopSignals,
    ) -> None:
        self.experiment, self.run, self.observers = experiment, run, observers
        self.start, self.minutes, self.signals = start, minutes, signals
        self.since = self.saved = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds spent on the run, in all sessions together."""
        return self.start.seconds + time.perf_counter() - self.since

    def save(self, epoch: int, batch: int = 0, process: list[dict[str, Any]] | None = None) -> None:
        """Save a checkpoint after whole epochs and batches of the next one.

        Args:
            process: the states of all processes inside an epoch.
        """
        step, n = self.experiment.step, epoch * len(self.experiment.loader) + batch
        check_weights(self.run, {"encoder": step.encoder, "head": step.head, "loss": step.objective}, step=n)
        self.run.save({
            "step": n, "epoch": epoch, "batch": batch, "process": process, "untrained": self.start.untrained,
            "seconds": self.seconds, "observers": {name: item.state() for name, item in self.observers.items()},
            **step.state(),
        })  # fmt: skip
        self.saved = time.perf_counter()

    def after_step(self, epoch: int) -> Callable[[int, Callable[[], dict[str, Any]]], None]:
        """The `after_step` of `train_epoch`: saves between batches, and stops there if a signal asks to."""

        def save_if_due(batch: int, process: Callable[[], dict[str, Any]]) -> None:
            is_due = is_main() and time.perf_counter() - self.saved >= 60 * self.minutes
            is_due, stops = any_process(is_due, self.signals.pending is not None)
            if is_due or stops:
                self.save(epoch, batch, from_all(process()))
            if stops:
                raise Stop(self.signals.pending or signal.SIGTERM)  # another process got the signal

        return save_if_due


def resume(experiment: Experiment, run: RunDirectory, observers: dict[str, StepObserver]) -> Start:
    """Restore the last checkpoint."""
    state = run.state
    assert state is not None
    experiment.step.load(state)
    for name, observer in observers.items():
        observer.load(state["observers"][name])
    epoch, batch, processes = state["epoch"], state["batch"], state["process"]
    print(f"resuming after epoch {epoch}" + (f" and {batch} of {len(experiment.loader)} batches" if batch else ""))
    process = processes[rank() % len(processes)] if processes else None  # of another number of processes: not exact
    return Start(epoch, batch, state["untrained"], state["seconds"], process)


def write_weights(experiment: Experiment, result: dict[str, Any], path: Path) -> None:
    """Write the weights of the encoder and of the head into the run directory."""
    step = experiment.step
    save_run_weights(path, result=result, data=experiment.data, encoder=step.encoder, head=step.head)


def encoder_record(encoder: nn.Module, settings: Settings) -> dict[str, Any]:
    """What was evaluated: the values taken as features, the file it started from, the epochs it was trained for."""
    weights = settings.encoder.get("weights")
    return {"features": feature(encoder), "weights": weights, "epochs": settings.epochs}


@contextmanager
def explained_memory(experiment: Experiment, settings: Settings) -> Iterator[None]:
    """Turn a failed allocation in the body into a ConfigError with the largest consumers and what to try."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise ConfigError(out_of_memory(error, consumers(experiment, settings))) from error


def consumers(experiment: Experiment, settings: Settings) -> str:
    """What holds memory, largest first: known sizes, and the activations by what they grow with."""
    step = experiment.step
    state = [value for values in step.optimizer.state.values() for value in values.values()]
    tensors = [*step.parameters(), *(value for value in state if isinstance(value, torch.Tensor))]
    sizes = {
        f"images {'on' if not experiment.loader.streaming else 'beside'} the device": experiment.data.nbytes,
        "weights, their gradients and the optimizer": 2 * sum(value.nbytes for value in tensors),
    }
    known = ", ".join(f"{name} {size / 2**30:.2f} GiB" for name, size in sorted(sizes.items(), key=lambda x: -x[1]))
    at_once = settings.grad_cache_chunk or settings.batch_size
    return f"; activations of {at_once * settings.n_views} views at once are usually the most, then {known}"
