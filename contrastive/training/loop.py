"""The training loop on one page: epochs, steps, learning rate, logging, evaluating, saving, signals."""

from collections.abc import Callable, Mapping

import torch

from contrastive.distributed.process import Agreement, any_process, gather, rank
from contrastive.distributed.signals import Stop, StopSignals
from contrastive.evaluator.base import StepObserver
from contrastive.run.directory import RunDirectory
from contrastive.seeding import derive, generator
from contrastive.training.checkpointer import Checkpointer, ResumePoint, process_state, restore
from contrastive.training.diagnostics import diagnose
from contrastive.training.loader import Loader
from contrastive.training.progress import Progress
from contrastive.training.step import TrainStep
from contrastive.training.window import Window


def train(
    step: TrainStep,
    loader: Loader,
    run: RunDirectory,
    *,
    start: ResumePoint,
    epochs: int,
    schedule: Callable[[float, int], float],
    log_every: int,
    checkpointer: Checkpointer,
    observers: Mapping[str, StepObserver],
    evaluate: Callable[[int], dict[str, float]],
    progress: Progress,
    profiler: torch.profiler.profile | None,
    signals: StopSignals,
) -> None:
    """Train from `start` to the last epoch.

    Every random draw depends on (seed, purpose, epoch) alone, so that an epoch is the same whether or not it follows
    an interruption. Inside an epoch, the generators' states are part of the checkpoint.

    Args:
        schedule: (epoch, epochs) → factor on every group's `initial_lr`.
        log_every: batches between log lines; the last batch of an epoch always logs.
        checkpointer: saves when it is due, at a signal, and after the last epoch.
        observers: evaluators that learn from the features of each batch.
        evaluate: epochs done → the metrics that are due then; called after each epoch but the last.

    Raises:
        ConfigError: loss or gradient are no longer finite. The last checkpoint stays.
        Stop: a signal asked this process to end; a checkpoint was saved first.
    """
    n_batches, agreement = len(loader), Agreement()
    chance = step.objective.chance(loader.batch_size, step.n_views, loader.device)
    window = Window(step, loader, run)
    for epoch in range(start.epoch, epochs):
        first = start.batch if epoch == start.epoch else 0
        with signals.held():
            torch.manual_seed(derive(loader.seed, "layers", epoch, *([rank()] if rank() > 0 else [])))
            rng = generator(loader.device, loader.seed, "augmentation", epoch)
            window.start_epoch(epoch)
            if epoch == start.epoch and start.process is not None:
                restore(start.process, rng, window, key=(loader.seed, "augmentation", epoch, first))
            step.encoder.train()
            step.head.train()

            for done, batch in enumerate(loader.epoch(epoch, start=first), first + 1):
                factor = schedule(epoch + (done - 1) / n_batches, epochs)
                for group in step.optimizer.param_groups:
                    group["lr"] = group["initial_lr"] * factor
                output = step(batch, rng)
                window.add(output)
                for observer in observers.values():
                    observer.observe(gather(output.main.outputs["features"]), gather(output.main.label))
                progress.update()
                if profiler is not None:
                    profiler.step()

                if done % log_every == 0 or done == n_batches:
                    window.check(done, output)
                    lr = {"train/lr": step.optimizer.param_groups[0]["lr"]}
                    metrics = window.close() | chance | lr | diagnose(step.objective, output)
                    run.log(epoch * n_batches + done, epoch + done / n_batches, metrics)
                    progress.show(metrics)

                if done < n_batches:
                    is_due, stops = agreement(checkpointer.is_due(), signals.pending is not None)
                    if is_due or stops:
                        window.check(done, output)
                        checkpointer.save(epoch, done, process_state(rng, window), wait=stops)
                    if stops:
                        signals.check(elsewhere=True)
            (stops,) = any_process(signals.pending is not None)

        done_epochs = epoch + 1
        try:
            signals.check(elsewhere=stops)
            scores = evaluate(done_epochs) if done_epochs < epochs else {}
        except Stop:
            checkpointer.save(epoch, n_batches, wait=True)
            raise
        with signals.held():
            if scores:
                run.log(done_epochs * n_batches, done_epochs, scores)
                progress.show(scores)
            (stops,) = any_process(signals.pending is not None)
            ends = done_epochs == epochs or stops
            if checkpointer.is_due_after(done_epochs) or ends:
                checkpointer.save(done_epochs, wait=ends)
        signals.check(elsewhere=stops)
        progress.end_epoch(done_epochs)
