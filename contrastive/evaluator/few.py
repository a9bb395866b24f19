"""Logistic regression from few labels: a handful of images of each class, or a fraction of them."""

from dataclasses import dataclass
from statistics import mean

import torch
from torch import Tensor

from contrastive.errors import check_between
from contrastive.evaluator.base import Evaluator, FeatureSets, Scores, topk_accuracy
from contrastive.evaluator.linear import Standardizer, fit_logistic, fit_strengths, logits
from contrastive.seeding import generator


@dataclass(kw_only=True)
class FewShot(Evaluator):
    """Mean test accuracy of logistic regressions on `shots` labeled images of each class, over fixed draws.

    Args:
        shots: training images of each class, at least 1.
        l2: strength of at least 0.
        draws: at least 1.
        max_iter: Newton iterations per fit, at least 1.
    """

    shots: int = 5
    l2: float = 1e-2
    draws: int = 5
    max_iter: int = 100

    def __post_init__(self) -> None:
        self.protocol = (
            f"logistic regression (Newton's method, strength {self.l2:g}) on {self.shots} labeled training images of "
            f"each class, mean over {self.draws} fixed draws; last epoch"
        )

    def __call__(self, features: FeatureSets) -> Scores:
        train, test, n = features.train, features.test, features.n_classes
        standardize = Standardizer(train.h)
        x, x_test = standardize(train.h), standardize(test.h)
        label, top1 = train.label.cpu(), []
        for draw in range(self.draws):
            order = torch.randperm(len(x), generator=generator("cpu", "few shot", draw))
            chosen = torch.cat([order[label[order] == c][: self.shots] for c in range(n)])
            few = x[chosen.to(x.device)].cpu()  # a fit of so few images is faster on a CPU than its launches on a GPU
            weight = fit_logistic(few, label[chosen], n_classes=n, l2=self.l2, max_iter=self.max_iter)
            top1.append(topk_accuracy(logits(weight.to(x.device), x_test), test.label, 1))
        return Scores(test={"top1": sum(top1) / len(top1)})


@dataclass(kw_only=True)
class FewLabel(Evaluator):
    """Mean test accuracy of logistic regressions on a fraction of the labels of each class, over fixed draws.

    The fractions are those at which Chen et al. 2020 fine-tune (§6, recalled), at least one image of each class; they
    fit no linear probe there. For each draw the strength with the highest accuracy on all validation images (the
    strongest of equals) is chosen, and `test` is read once; nothing is refitted. The validation images are a tenth of
    the training split for every fraction. So the choice of the strength uses ten times as many labels as 1 %.

    Args:
        fractions: of the nine tenths of the training images that probes fit, each in (0, 1].
        l2: strengths of at least 0.
        draws: at least 1.
        max_iter: Newton iterations per fit, at least 1.
    """

    fractions: tuple[float, ...] = (0.01, 0.1)
    l2: tuple[float, ...] = (1e-1, 1e-2, 1e-3)
    draws: int = 5
    max_iter: int = 100

    def __post_init__(self) -> None:
        check_between("evaluator.few_label.fractions", self.fractions, 0, 1, exclude=(0,), example="[0.01,0.1]")
        shares = " and ".join(f"{100 * fraction:g} %" for fraction in self.fractions)
        self.protocol = (
            f"logistic regression on standardized frozen features (Newton's method), {shares} of the labels of each "
            f"class, strength chosen on probe_val, mean over {self.draws} fixed draws; last epoch"
        )

    def __call__(self, features: FeatureSets) -> Scores:
        scores = Scores()
        for fraction in self.fractions:
            draws = [self._fit(features, fraction, draw) for draw in range(self.draws)]
            name = f"{in_percent(fraction)}_top1"
            scores.val[name], scores.test[name] = (mean(values) for values in zip(*draws, strict=True))
        return scores

    def _fit(self, features: FeatureSets, fraction: float, draw: int) -> tuple[float, float]:
        """The highest validation accuracy over the strengths, and the test accuracy of that fit."""
        few = features.train[draw_labels(features.train.label, fraction, draw)]
        standardize = Standardizer(features.train.h)
        x, x_val = standardize(few.h), standardize(features.val.h)
        best = fit_strengths(
            x, few.label, x_val, features.val.label, l2=self.l2, n_classes=features.n_classes, max_iter=self.max_iter
        )
        scores = logits(best.weight, standardize(features.test.h))
        return best.val_top1, topk_accuracy(scores, features.test.label, 1)


def draw_labels(label: Tensor, fraction: float, draw: int) -> Tensor:
    """Indices of a fixed draw of the labels (N,): the fraction of each class, at least one image; sorted."""
    rng, known = generator("cpu", "fraction of the labels", fraction, draw), label.cpu()
    classes = [(known == c).nonzero().squeeze(1) for c in known.unique()]
    drawn = [rows[torch.randperm(len(rows), generator=rng)[: max(1, round(fraction * len(rows)))]] for rows in classes]
    return torch.cat(drawn).sort().values.to(label.device)


def in_percent(fraction: float) -> str:
    """The name of a fraction in metrics: 0.1 is `10pct`."""
    return f"{100 * fraction:g}pct"
