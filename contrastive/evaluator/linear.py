"""The linear probe: multinomial logistic regression on frozen features, by Newton's method."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.evaluator.base import Evaluator, FeatureSets, Scores, read_out, topk_accuracy

LENGTHS = (0.0, 2**-10, 2**-5, 0.25, 0.5, 1.0, 2.0)  # of a Newton step
MAX_CG = 200  # steps of conjugate gradients for one direction
CG_BETWEEN_WAITS = 8  # of them, between two looks of the host at the residual


@dataclass(kw_only=True)
class Linear(Evaluator):
    """Test accuracy of logistic regression on standardized features, its strength chosen on the validation images.

    The strength is the one of `l2` with the highest accuracy on `val` (the strongest of equals), which is the
    validation metric. The classifier is then refitted on all labeled training images, and `test` is read once. Where
    the dataset draws colors, `val` shows nearly unbiased ones. Hong & Yang (2021) select by these, too; Barbano et al.
    (2023) do not. Unless `dataset.hold_out` is set, the encoder was trained on the images of `val`, and a supervised
    one also on their labels.

    Args:
        l2: strengths of at least 0, tried from strong to weak, each fit starting from the last solution.
        max_iter: Newton iterations per fit, at least 1.
    """

    protocol = (
        "logistic regression on standardized frozen features (Newton's method), strength chosen on probe_val "
        "(recolored nearly without bias where the dataset draws the colors), then refitted on all labeled training "
        "images; last epoch"
    )

    l2: tuple[float, ...] = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
    max_iter: int = 100

    def __call__(self, features: FeatureSets) -> Scores:
        train, val, bank, test, n = features.train, features.val, features.bank, features.test, features.n_classes
        standardize = Standardizer(train.h)
        x, x_val = standardize(train.h), standardize(val.h)
        best = fit_strengths(x, train.label, x_val, val.label, l2=self.l2, n_classes=n, max_iter=self.max_iter)
        x_bank = standardize(bank.h)
        weight = fit_logistic(x_bank, bank.label, n_classes=n, l2=best.l2, max_iter=self.max_iter, start=best.weight)
        return read_out(logits(weight, standardize(test.h)), test.label, best.val_top1)


class Standardizer:
    """Maps features to zero mean and unit deviation per dimension of the features (N, F) it was made from."""

    def __init__(self, h: Tensor) -> None:
        self.mean, self.std = h.mean(0), h.std(0, correction=min(1, len(h) - 1)).clamp(min=1e-6)

    def __call__(self, h: Tensor) -> Tensor:
        return (h - self.mean) / self.std


def fit_logistic(
    x: Tensor, label: Tensor, *, n_classes: int, l2: float, max_iter: int, start: Tensor | None = None
) -> Tensor:
    """(C, F + 1) weights, the last column the intercept, that minimize mean cross-entropy + l2/2 · |W|² on x (N, F).

    Newton's method, its directions by conjugate gradients, so that no Hessian of (C · F)² numbers is ever held. It ends
    where a whole step would gain less than the resolution of x.dtype (1e-7 in float32), after some five iterations for
    each strength of a path. An iteration reads only a few numbers from a GPU. Deterministic.

    Args:
        x: standardized features, float32 or float64.
        label: (N,) in [0, C).
        l2: at least 0.
        max_iter: Newton iterations; it bounds fits without an optimum (l2 = 0 on separable classes).
        start: weights to start from where they are better than zero; None = zero.
    """
    problem = _Regression(x, label, F.one_hot(label, n_classes).to(x.dtype), l2)
    weight = x.new_zeros(n_classes, x.shape[1] + 1)
    if start is not None:
        weight = torch.where(problem.value(start) < math.log(n_classes), start, weight)
    for _ in range(max_iter):
        direction, gain = problem.newton_direction(weight)
        length = problem.best_length(weight, direction)
        weight = torch.where(length > 0, weight + length * direction, weight)
        expected, taken = torch.stack([gain, length]).tolist()
        if expected < torch.finfo(x.dtype).eps or taken == 0:
            break
    return weight


@dataclass(frozen=True)
class _Regression:
    """Mean cross-entropy + l2/2 · |W|² of weights (C, F + 1) on x (N, F), label (N,), target (N, C) one-hot."""

    x: Tensor
    label: Tensor
    target: Tensor
    l2: float

    def newton_direction(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """(C, F + 1) step to the minimum of the quadratic model, and the decrease that the model expects, a scalar.

        Conjugate gradients, preconditioned by the Hessian's diagonal block averaged over classes. They end once the
        squared residual has fallen to a hundredth, and below the expected decrease itself near the optimum: the error
        then falls faster than linearly (Dembo, Eisenstat and Steihaug 1982).
        """
        p = logits(weight, self.x).softmax(1)
        inverse = self._preconditioner(p)
        residual = -(self._adjoint(p - self.target) + self._ridge(weight))
        gradient, direction, search = residual, torch.zeros_like(weight), inverse(residual)
        rho = first = (residual * search).sum()
        number = torch.finfo(weight.dtype)
        enough = first * first.clamp(number.eps, 1e-2)
        for i in range(1, MAX_CG + 1):
            slope = logits(search, self.x)
            curved = self._adjoint(p * (slope - (p * slope).sum(1, keepdim=True))) + self._ridge(search)
            length = torch.where(rho > enough, rho / (search * curved).sum().clamp(min=number.tiny), 0)
            direction, residual = direction + length * search, residual - length * curved
            step = inverse(residual)
            rho, before = (residual * step).sum(), rho
            search = step + rho / before.clamp(min=number.tiny) * search
            if i % CG_BETWEEN_WAITS == 0 and not (rho > enough).item():
                break
        return direction, (gradient * direction).sum() / 2

    def value(self, weight: Tensor) -> Tensor:
        """The objective, a float64 scalar."""
        return self._value(logits(weight, self.x).double(), weight)

    def best_length(self, weight: Tensor, direction: Tensor) -> Tensor:
        """The one of LENGTHS with the lowest objective, a scalar: logits are linear in it, so all are tried at once."""
        at, slope = logits(weight, self.x).double(), logits(direction, self.x).double()
        values = torch.stack([self._value(at + t * slope, weight + t * direction) for t in self.lengths])
        return self.lengths.take(values.nan_to_num(nan=torch.inf).argmin()).to(weight.dtype)

    @cached_property
    def lengths(self) -> Tensor:
        return torch.tensor(LENGTHS, dtype=torch.float64, device=self.x.device)  # a GPU would wait for each copy

    def _value(self, scores: Tensor, weight: Tensor) -> Tensor:
        return F.cross_entropy(scores, self.label) + self.l2 / 2 * weight[:, :-1].double().square().sum()

    def _adjoint(self, r: Tensor) -> Tensor:
        """(N, C) by logits → (C, F + 1) by weights, of means over the images."""
        return torch.cat([r.T @ self.x, r.sum(0)[:, None]], 1) / len(self.x)

    def _ridge(self, weight: Tensor) -> Tensor:
        return self.l2 * F.pad(weight[:, :-1], (0, 1))

    def _preconditioner(self, p: Tensor) -> Callable[[Tensor], Tensor]:
        """The inverse of mean_n,c p (1 - p) x xᵀ + l2, by every (N / 4F)th image where there are many."""
        few = slice(None, None, max(1, len(self.x) // (4 * self.x.shape[1])))
        curvature = (p * (1 - p)).mean(1)
        x, share = self.x[few], curvature[few]
        hessian = ((x * share[:, None]).T @ x).double() / len(x)
        hessian.diagonal().add_(self.l2 + 1e-6 * hessian.trace() + 1e-12)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky_ex(hessian).L).to(self.x.dtype)
        of_intercept = 1 / curvature.mean().clamp(min=1e-12)

        def apply(r: Tensor) -> Tensor:
            step = torch.cat([r[:, :-1] @ inverse, r[:, -1:] * of_intercept], 1)
            return step - step.mean(0)  # a step of all classes alike changes no logit against another

        return apply


class Fit(NamedTuple):
    """A regression, its strength, and its accuracy on the validation images in percent."""

    val_top1: float
    l2: float
    weight: Tensor


def fit_strengths(
    x: Tensor, label: Tensor, x_val: Tensor, val_label: Tensor, *, l2: Sequence[float], n_classes: int, max_iter: int
) -> Fit:
    """The fit of the strength with the highest validation accuracy, the strongest of equals.

    Args:
        x: standardized features (N, F).
        x_val: standardized features (N, F).
        label: (N,) in [0, C).
        val_label: (N,) in [0, C).
        l2: strengths, tried from strong to weak; each fit starts from the last solution.
    """
    weight, fits = None, []
    for strength in sorted(l2, reverse=True):
        weight = fit_logistic(x, label, n_classes=n_classes, l2=strength, max_iter=max_iter, start=weight)
        fits.append(Fit(topk_accuracy(logits(weight, x_val), val_label, 1), strength, weight))
    return max(fits, key=lambda fit: fit.val_top1)


def logits(weight: Tensor, x: Tensor) -> Tensor:
    """(N, C) scores of x (N, F) under weights of `fit_logistic`."""
    return F.linear(x, weight[:, :-1], weight[:, -1])
