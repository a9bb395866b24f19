"""Evaluations of a network in training: before, after epochs, after; and evaluators that learn from its batches."""

from collections.abc import Callable, Mapping
from typing import Any

from contrastive.distributed.signals import Stop, StopSignals
from contrastive.evaluator.base import Scores
from contrastive.evaluator.published import OnlineProbe
from contrastive.gathering import gather
from contrastive.training.checkpointer import Checkpointer
from contrastive.training.hook import Hook, Training
from contrastive.training.step import StepOutput


class Evaluations(Hook):
    """Evaluates before training, after epochs, and after training.

    It is called before every hook that has an `on_epoch`: the checkpoint of a signal that interrupts an evaluation is
    then one from before all of them, and they are all called when the epoch is evaluated again.

    Attributes:
        untrained: the metrics before training.
        untrained_correct: {accuracy: test images that were classified right}, see `bits.pack`, before training.
        scores: those after training, once `on_end` has returned.

    Args:
        before: logs the metrics before the first step of a run, and returns their scores.
        due: epochs done → the metrics that are due then; not called after the last epoch.
        after: logs the scores after training, and returns them.
        observers: evaluators that learn from every batch's features.
        checkpointer: saves when a signal interrupts an evaluation.
        signals: interrupt an evaluation at once.
    """

    def __init__(
        self,
        *,
        before: Callable[[Training], Scores],
        due: Callable[[int], dict[str, float]],
        after: Callable[[Training], Scores],
        observers: Mapping[str, OnlineProbe],
        checkpointer: Checkpointer,
        signals: StopSignals,
    ) -> None:
        self.before, self.due, self.after, self.observers = before, due, after, observers
        self.checkpointer, self.signals = checkpointer, signals
        self.untrained: dict[str, float] | None = None
        self.untrained_correct: dict[str, str] = {}
        self.scores = Scores()

    def on_start(self, training: Training) -> None:
        if self.untrained is None:
            with self.signals.released():
                scores = self.before(training)
            self.untrained, self.untrained_correct = scores.test, scores.correct

    def on_step(self, training: Training, output: StepOutput) -> None:
        for observer in self.observers.values():
            observer.observe(gather(output.main.outputs["features"]), gather(output.main.label))

    def on_epoch(self, training: Training) -> None:
        """Log the metrics that are due.

        Raises:
            Stop: a signal asked this process to end; a checkpoint of the epoch that is not evaluated was saved first.
        """
        done = training.epoch + 1
        try:
            with self.signals.released():
                metrics = self.due(done) if done < training.epochs else {}
        except Stop:
            self.checkpointer.save(training.epoch, training.batch, wait=True)
            raise
        if metrics:
            training.log(metrics)

    def on_end(self, training: Training) -> None:
        with self.signals.released():
            self.scores = self.after(training)

    def state_dict(self) -> dict[str, Any]:
        learned = {name: observer.state() for name, observer in self.observers.items()}
        return {"untrained": self.untrained, "untrained_correct": self.untrained_correct, "learned": learned}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.untrained, self.untrained_correct = state["untrained"], state["untrained_correct"]
        for name, observer in self.observers.items():
            observer.load(state["learned"][name])
