"""Multinomial logistic regression by full-batch L-BFGS."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.evaluator._accuracy import topk_accuracy


def fit_logistic(
    x: Tensor, label: Tensor, *, n_classes: int, l2: float, max_iter: int, start: Tensor | None = None
) -> Tensor:
    """(C, F + 1) weights, the last column the intercept, that minimize mean cross-entropy + l2/2 · |W|² on x (N, F).

    L-BFGS runs in coordinates where the Hessian of small weights, Cov(x) p (1 - p) + l2 with p = 1/C, is the identity:
    it converges in a few dozen iterations instead of hundreds. Deterministic.

    Args:
        x: standardized features. label: (N,) in [0, C). l2: at least 0. max_iter: L-BFGS iterations.
        start: weights to start from; None = zero.
    """
    p = 1 / n_classes
    hessian = (x.T @ x).double() * (p * (1 - p) / len(x))
    hessian.diagonal().add_(l2 + 1e-6 * hessian.trace() + 1e-12)
    root = torch.linalg.cholesky(hessian).to(x.dtype)
    inverse = torch.linalg.solve_triangular(root, torch.eye(len(root), device=x.device), upper=False)
    start = x.new_zeros(n_classes, x.shape[1] + 1) if start is None else start
    free = torch.cat([start[:, :-1] @ root, start[:, -1:]], 1).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [free], max_iter=max_iter, tolerance_grad=1e-5, tolerance_change=1e-7, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        weight = free[:, :-1] @ inverse
        value: Tensor = F.cross_entropy(F.linear(x, weight, free[:, -1]), label) + l2 / 2 * weight.square().sum()
        value.backward()
        return value

    optimizer.step(closure)
    return torch.cat([free[:, :-1] @ inverse, free[:, -1:]], 1).detach()


def check_strengths(key: str, l2: Sequence[float], *, example: str) -> None:
    """Raise ConfigError unless there are strengths and all are finite numbers of at least 0.

    Args:
        key: the setting as it is typed, such as `evaluator.linear.l2`. example: a value to try.
    """
    if not l2 or not all(0 <= strength < math.inf for strength in l2):
        given = ", ".join(map(str, l2)) or "an empty list"
        raise ConfigError(f"{key} must be at least 0 and finite, got {given}: try {key}={example}")


class Fit(NamedTuple):
    """A regression, its strength, and its accuracy on the validation images in percent."""

    val_top1: float
    l2: float
    weight: Tensor


def fit_strengths(
    x: Tensor, label: Tensor, x_val: Tensor, val_label: Tensor, *, l2: list[float], n_classes: int, max_iter: int
) -> Fit:
    """The fit of the strength with the highest validation accuracy, the strongest of equals.

    Args:
        x, x_val: standardized features (N, F). label, val_label: (N,) in [0, C).
        l2: strengths from strong to weak; each fit starts from the last solution.
    """
    weight, fits = None, []
    for strength in l2:
        weight = fit_logistic(x, label, n_classes=n_classes, l2=strength, max_iter=max_iter, start=weight)
        fits.append(Fit(topk_accuracy(logits(weight, x_val), val_label, 1), strength, weight))
    return max(fits, key=lambda fit: fit.val_top1)


def logits(weight: Tensor, x: Tensor) -> Tensor:
    """(N, C) scores of x (N, F) under weights of `fit_logistic`."""
    return F.linear(x, weight[:, :-1], weight[:, -1])


class Standardizer:
    """Maps features to zero mean and unit deviation per dimension of the features (N, F) it was made from."""

    def __init__(self, h: Tensor) -> None:
        self.mean, self.std = h.mean(0), h.std(0).clamp(min=1e-6)

    def __call__(self, h: Tensor) -> Tensor:
        return (h - self.mean) / self.std
