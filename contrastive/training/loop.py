"""The training loop on one page: epochs, steps, learning rate, and the hooks that watch."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack

import torch

from contrastive.distributed.process import rank
from contrastive.run.directory import RunDirectory
from contrastive.seeding import derive, generator
from contrastive.training.checkpointer import ResumePoint
from contrastive.training.hook import Hook, Training
from contrastive.training.loader import Loader
from contrastive.training.step import TrainStep
from contrastive.training.step_log import recorded_failure


def train(
    step: TrainStep,
    loader: Loader,
    schedule: Callable[[float, int], float],
    epochs: int,
    hooks: Mapping[str, Hook],
    *,
    run: RunDirectory,
    start: ResumePoint,
) -> None:
    """Train from `start` to the last epoch.

    Every random draw depends on (seed, purpose, epoch) alone, so that an epoch is the same whether or not it follows
    an interruption. Inside an epoch, the generators' states are part of the checkpoint.

    Args:
        schedule: (epoch, epochs) → factor on every group's `initial_lr`.
        hooks: called in this order, at every event.
        run: where hooks write.

    Raises:
        ConfigError: loss or gradient are no longer finite. The last checkpoint stays.
        Stop: a signal asked this process to end; a checkpoint was saved first.
    """
    n_batches = len(loader)
    training = Training(
        step=step, loader=loader, run=run, hooks=hooks, epochs=epochs, epoch=start.epoch, batch=start.batch,
        rng=generator(loader.device, loader.seed, "augmentation", start.epoch),
    )  # fmt: skip
    with ExitStack() as stack:
        for hook in hooks.values():
            hook.on_start(training)
            stack.callback(hook.close)

        for epoch in range(start.epoch, epochs):
            first = start.batch if epoch == start.epoch else 0
            training.move(epoch, first)
            torch.manual_seed(derive(loader.seed, "layers", epoch, *([rank()] if rank() > 0 else [])))
            training.rng = generator(loader.device, loader.seed, "augmentation", epoch)
            for hook in hooks.values():
                hook.on_epoch_start(training)
            step.encoder.train()
            step.head.train()

            for done, batch in enumerate(loader.epoch(epoch, start=first), first + 1):
                factor = schedule(epoch + (done - 1) / n_batches, epochs)
                for group in step.optimizer.param_groups:
                    group["lr"] = group["initial_lr"] * factor
                with recorded_failure(run):
                    output = step(batch, training.rng)
                training.move(epoch, done)
                for hook in hooks.values():
                    hook.on_step(training, output)

            training.move(epoch, n_batches)
            for hook in hooks.values():
                hook.on_epoch(training)

        training.move(epochs, 0)
        for hook in hooks.values():
            hook.on_end(training)
