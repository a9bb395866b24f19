"""Accuracies, in percent."""

from torch import Tensor


def top(scores: Tensor, label: Tensor, n: int) -> float:
    """Percent of the rows of scores (N, C) whose label (N,) is among the n highest."""
    best = scores.topk(min(n, scores.shape[1]), dim=1).indices
    return 100 * (best == label[:, None]).any(1).double().mean().item()
