"""The log of steps: a line of metrics every so many batches, and the stop of a run that has broken down."""

from contrastive.training.diagnostics import diagnose
from contrastive.training.hook import Hook, Training
from contrastive.training.step import StepOutput
from contrastive.training.window import Window


class StepLog(Hook):
    """Logs loss, gradient norm, learning rate, speed and diagnostics of the steps.

    Its state is part of `process_state`, because each process has its own.

    Args:
        window: what is known of the steps since the last line.
        every: batches between lines; the last batch of an epoch always has one.
    """

    def __init__(self, window: Window, *, every: int) -> None:
        self.window, self.every = window, every

    def on_start(self, training: Training) -> None:
        step, loader = training.step, training.loader
        self.chance = step.chance(loader.batch_size, loader.device)

    def on_epoch_start(self, training: Training) -> None:
        self.window.start_epoch(training.epoch)

    def on_step(self, training: Training, output: StepOutput) -> None:
        """Count the step; if a line is due, check and log the steps since the last one.

        Raises:
            ConfigError: loss or gradient are no longer finite, or the gradient is absurdly large.
        """
        self.window.add(output)
        if training.batch % self.every == 0 or training.ends_epoch:
            self.window.check(training.batch, output)
            lr = {"train/lr": training.step.optimizer.param_groups[0]["lr"]}
            training.log(self.window.close() | self.chance | lr | diagnose(training.step.objective, output))
