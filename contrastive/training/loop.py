"""The training loop on one page: epochs, steps, learning rate, logging, evaluating, saving, signals."""

import signal
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from contrastive.distributed.process import any_process, from_all, gather, is_main, rank
from contrastive.distributed.signals import Stop, StopSignals
from contrastive.evaluator.base import StepObserver
from contrastive.run.directory import RunDirectory
from contrastive.seeding import derive, generator
from contrastive.training.diagnostics import diagnose
from contrastive.training.loader import Loader
from contrastive.training.progress import Progress
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


def train(
    step: TrainStep,
    loader: Loader,
    run: RunDirectory,
    *,
    start: ResumePoint,
    epochs: int,
    schedule: Callable[[float, int], float],
    log_every: int,
    save_every: int,
    checkpointer: "Checkpointer",
    observers: Mapping[str, StepObserver],
    evaluate: Callable[[int], dict[str, float]],
    progress: Progress,
    signals: StopSignals,
) -> None:
    """Train from `start` to the last epoch.

    Every random draw depends on (seed, purpose, epoch) alone, so that an epoch is the same whether or not it follows
    an interruption. Inside an epoch, the generators' states are part of the checkpoint.

    Args:
        schedule: (epoch, epochs) → factor on every group's `initial_lr`.
        log_every: batches between log lines; the last batch of an epoch always logs.
        save_every: epochs between checkpoints; the last epoch always saves.
        observers: evaluators that learn from the features of each batch.
        evaluate: epochs done → the metrics that are due then; called after each epoch but the last.

    Raises:
        ConfigError: loss or gradient are no longer finite. The last checkpoint stays.
        Stop: a signal asked this process to end; a checkpoint was saved first.
    """
    n_batches = len(loader)
    for epoch in range(start.epoch, epochs):
        first = start.batch if epoch == start.epoch else 0
        with signals.held():
            torch.manual_seed(derive(loader.seed, "layers", epoch, *([rank()] if rank() > 0 else [])))
            rng = generator(loader.device, loader.seed, "augmentation", epoch)
            window = Window(loader.views_per_step(step.n_views), loader.device)
            if epoch == start.epoch and start.process is not None:
                restore(start.process, rng, window, key=(loader.seed, "augmentation", epoch, first))
            step.encoder.train()
            step.head.train()

            for done, batch in enumerate(loader.epoch(epoch, start=first), first + 1):
                factor = schedule(epoch + (done - 1) / n_batches, epochs)
                for group in step.optimizer.param_groups:
                    group["lr"] = group["initial_lr"] * factor
                output = step(batch, rng)
                window.add(output.loss, output.grad_norm)
                for observer in observers.values():
                    observer.observe(gather(output.main.outputs["features"]), gather(output.main.label))
                progress.update()

                if done % log_every == 0 or done == n_batches:
                    window.check(run, loader, epoch=epoch, done=done, output=output, fp16=step.scaler.is_enabled())
                    lr = {"train/lr": step.optimizer.param_groups[0]["lr"]}
                    metrics = window.close() | lr | diagnose(step.objective, output)
                    run.log(epoch * n_batches + done, epoch + done / n_batches, metrics)
                    progress.show(metrics)

                if done < n_batches:
                    is_due, stops = any_process(checkpointer.is_due(), signals.pending is not None)
                    if is_due or stops:
                        window.check(run, loader, epoch=epoch, done=done, output=output, fp16=step.scaler.is_enabled())
                        checkpointer.save(epoch, done, process_state(rng, window))
                    if stops:
                        raise Stop(signals.pending or signal.SIGTERM)  # another process got the signal

        done_epochs = epoch + 1
        try:
            signals.check()
            scores = evaluate(done_epochs) if done_epochs < epochs else {}
        except Stop:
            checkpointer.save(epoch, n_batches)
            raise
        with signals.held():
            if scores:
                run.log(done_epochs * n_batches, done_epochs, scores)
                progress.show(scores)
            if done_epochs % save_every == 0 or done_epochs == epochs or signals.pending is not None:
                checkpointer.save(done_epochs)
        signals.check()
        progress.end_epoch(done_epochs)


class Checkpointer:
    """Saves what `resume` restores.

    Args:
        minutes: the most that a kill may lose of a long epoch.
    """

    def __init__(
        self,
        step: TrainStep,
        loader: Loader,
        run: RunDirectory,
        *,
        start: ResumePoint,
        observers: Mapping[str, StepObserver],
        minutes: float,
    ) -> None:
        self.step, self.loader, self.run, self.start = step, loader, run, start
        self.observers, self.minutes = observers, minutes
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
