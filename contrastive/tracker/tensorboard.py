"""TensorBoard: every line of metrics.jsonl, and the pictures that training shows."""

from typing import Any

from contrastive.run.log import cut_events, event_files
from contrastive.tracker.base import NewLines
from contrastive.training.hook import Hook, Points, Training
from contrastive.training.step import StepOutput


class TensorBoard(Hook):
    """Event files in the run directory.

    A resumed run cuts them to what they were at its checkpoint, as it does with metrics.jsonl, and goes on from there.
    """

    def __init__(self) -> None:
        self.restored: dict[str, Any] | None = None

    def on_start(self, training: Training) -> None:
        from contrastive.run.tensorboard import EventFile  # slow to import, and not every run wants it

        self.path, restored = training.run.path, self.restored
        cut_events(self.path, restored["events"] if restored else {})
        self.file = EventFile(self.path, step=training.steps_done if restored else None)
        self.lines = NewLines(self.path, skip=restored["lines"] if restored else 0)
        self._follow(training)

    def on_step(self, training: Training, output: StepOutput) -> None:
        if training.metrics or training.shown:
            self._follow(training)

    def on_epoch(self, training: Training) -> None:
        self._follow(training)

    def on_end(self, training: Training) -> None:
        self._follow(training)
        self.file.add_hparams()

    def _follow(self, training: Training) -> None:
        for line in self.lines():
            step, _ = int(line.pop("step")), line.pop("epoch")
            for key, value in line.items():
                self.file.add_scalar(key, value, step)
        for name, shown in training.shown.items():
            if isinstance(shown, Points):
                self.file.add_embedding(shown.vectors, shown.columns, shown.images)
            elif shown.ndim == 3:
                self.file.add_image(name, shown, training.steps_done)
            else:
                self.file.add_histogram(name, shown, training.steps_done)

    def state_dict(self) -> dict[str, Any]:
        self.file.flush()
        return {"lines": self.lines.n, "events": {file.name: file.stat().st_size for file in event_files(self.path)}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.restored = state

    def close(self) -> None:
        self.file.close()
        self.lines.close()
