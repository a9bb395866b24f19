"""Accuracy in percent."""

from torch import Tensor


def topk_accuracy(scores: Tensor, label: Tensor, k: int) -> float:
    """Percent of the rows of scores (N, C) whose label (N,) is among the k highest."""
    best = scores.topk(min(k, scores.shape[1]), dim=1).indices
    return 100 * (best == label[:, None]).any(1).double().mean().item()


class BestEpoch:
    """The highest test accuracy over the epochs, as published: selected on the test split.

    Attributes:
        top1: in percent; below 0 before the first epoch. predictions: (N,) classes in that epoch, the first of equals.
    """

    def __init__(self, top1: float = -1.0, predictions: Tensor | None = None) -> None:
        self.top1, self.predictions = top1, predictions

    def update(self, scores: Tensor, label: Tensor) -> None:
        """Compare with the scores (N, C) of another epoch."""
        top1 = topk_accuracy(scores, label, 1)
        if top1 > self.top1:
            self.top1, self.predictions = top1, scores.argmax(1)
