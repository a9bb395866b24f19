"""Accuracy in percent."""

from torch import Tensor


def topk_accuracy(scores: Tensor, label: Tensor, k: int) -> float:
    """Percent of the rows of scores (N, C) whose label (N,) is among the k highest."""
    best = scores.topk(min(k, scores.shape[1]), dim=1).indices
    return 100 * (best == label[:, None]).any(1).double().mean().item()
