"""The bar or the lines that show how far training is."""

from contrastive.training.hook import Hook, Training
from contrastive.training.progress import Progress
from contrastive.training.step import StepOutput


class ShowProgress(Hook):
    """Tells a `Progress` of batches, epochs and metrics.

    Args:
        name: of the run.
        quiet: show nothing.
        before: what the encoder is called before the first batch.
    """

    def __init__(self, *, name: str, quiet: bool, before: str = "untrained") -> None:
        self.name, self.quiet, self.before = name, quiet, before

    def on_start(self, training: Training) -> None:
        self.progress = Progress(
            name=self.name,
            start=training.steps_done,
            epochs=training.epochs,
            per_epoch=len(training.loader),
            quiet=self.quiet,
            before=self.before,
        )
        self._show(training)

    def on_step(self, training: Training, output: StepOutput) -> None:
        self.progress.update()
        self._show(training)

    def on_epoch(self, training: Training) -> None:
        self._show(training)
        self.progress.end_epoch(training.epoch + 1)
        if training.epoch + 1 == training.epochs:
            self.close()  # what comes now is no training

    def _show(self, training: Training) -> None:
        """The metrics before training, of a step or of an epoch, if there are new ones."""
        if training.metrics:
            self.progress.show(training.metrics)

    def close(self) -> None:
        self.progress.close()
