"""What evaluators share: accuracy, logistic regression by L-BFGS, linear layers trained by steps, draws of labels."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

from contrastive.augmentation.base import Augmentation
from contrastive.dataset.splits import stratified
from contrastive.errors import ConfigError
from contrastive.evaluator.base import FeatureSets, Scores
from contrastive.seeding import generator

DELAY = 3.0  # seconds before the bar shows


def topk_accuracy(scores: Tensor, label: Tensor, k: int) -> float:
    """Percent of the rows of scores (N, C) whose label (N,) is among the k highest."""
    best = scores.topk(min(k, scores.shape[1]), dim=1).indices
    return 100 * (best == label[:, None]).any(1).double().mean().item()


def accuracies(scores: Tensor, label: Tensor) -> dict[str, float]:
    """top1, and of more than five classes top5, in percent of scores (N, C) for labels (N,)."""
    return {f"top{k}": topk_accuracy(scores, label, k) for k in (1, 5) if k == 1 or scores.shape[1] > k}


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

    def results(self, scores: Tensor, label: Tensor) -> Scores:
        """The metrics of the scores (N, C) of the last epoch, and `best_test_top1`."""
        assert self.predictions is not None, "no epoch yet"
        return Scores(
            test={**accuracies(scores, label), "best_test_top1": self.top1},
            predictions={"": scores.argmax(1), "best_test": self.predictions},
        )


class Standardizer:
    """Maps features to zero mean and unit deviation per dimension of the features (N, F) it was made from."""

    def __init__(self, h: Tensor) -> None:
        self.mean, self.std = h.mean(0), h.std(0).clamp(min=1e-6)

    def __call__(self, h: Tensor) -> Tensor:
        return (h - self.mean) / self.std


def fit_logistic(
    x: Tensor, label: Tensor, *, n_classes: int, l2: float, max_iter: int, start: Tensor | None = None
) -> Tensor:
    """(C, F + 1) weights, the last column the intercept, that minimize mean cross-entropy + l2/2 · |W|² on x (N, F).

    L-BFGS runs in coordinates where the Hessian of small weights, Cov(x) p (1 - p) + l2 with p = 1/C, is the identity:
    it converges in a few dozen iterations instead of hundreds. Deterministic.

    Args:
        x: standardized features.
        label: (N,) in [0, C).
        l2: at least 0.
        max_iter: L-BFGS iterations.
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


def draw_labels(label: Tensor, fraction: float, draw: int) -> Tensor:
    """Indices of a fixed draw of the labels (N,): the fraction of each class, at least one image; sorted."""
    _, drawn = stratified(label.cpu(), fraction, "fraction of the labels", fraction, draw)
    return drawn.to(label.device)


def in_percent(fraction: float) -> str:
    """The name of a fraction in metrics: 0.1 is `10pct`."""
    return f"{100 * fraction:g}pct"


def linear_layer(dim: int, n_classes: int, *, rng: torch.Generator, device: torch.device) -> nn.Linear:
    """A linear layer with torch's initialization (uniform in ± 1/√dim) drawn from a CPU generator."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, dim, n_classes, device=device)
    bound = dim**-0.5
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.empty(parameter.shape).uniform_(-bound, bound, generator=rng))
    return layer


def train_linear(
    features: FeatureSets,
    *,
    optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
    augmentation: Augmentation | None = None,
    lr_factor: Callable[[int], float] = lambda epoch: 1.0,
    epochs: int,
    batch_size: int,
    name: str,
) -> Iterator[Tensor]:
    """Train on augmented images of the bank; after each epoch yield the scores (N, C) of the test images.

    Args:
        augmentation: None = the one of the run.
        lr_factor: epoch (from 0) → factor on the learning rate.
        name: of the evaluator, for the error message.

    Raises:
        ConfigError: there are no images to augment.
    """
    if features.augmented is None:
        raise ConfigError(f"evaluator.{name} augments the training images and got features alone: try evaluator=linear")
    device = features.test.h.device
    rng = generator("cpu", "linear layer")
    layer = linear_layer(features.test.h.shape[1], features.n_classes, rng=rng, device=device)
    update = optimizer(list(layer.parameters()))
    base = [group["lr"] for group in update.param_groups]
    with progress(epochs, name, unit="epoch") as bar:
        for epoch in range(epochs):
            for group, lr in zip(update.param_groups, base, strict=True):
                group["lr"] = lr * lr_factor(epoch)
            train = features.augmented(epoch, augmentation)
            order = torch.randperm(len(train.h), generator=generator("cpu", "probe order", epoch)).to(device)
            for index in order.split(batch_size):
                update.zero_grad()
                F.cross_entropy(layer(train.h[index]), train.label[index]).backward()
                update.step()
            bar.update()
            with torch.no_grad():
                yield layer(features.test.h)


def progress(total: int, name: str, *, unit: str = "batch") -> tqdm:
    """A bar over `total` units of the evaluator `name`; only on a terminal, and by the first of several processes."""
    quiet = True if os.environ.get("RANK", "0") != "0" else None  # None: quiet unless on a terminal
    return tqdm(total=total, desc=name, unit=unit, delay=DELAY, mininterval=1, leave=False, disable=quiet)
