"""The few-shot probe: logistic regression on a handful of labels."""

from statistics import mean

import torch

from contrastive.errors import ConfigError
from contrastive.evaluator.base import Evaluator, FeatureSets, Scores
from contrastive.evaluator.probes import (
    Standardizer,
    check_fractions,
    check_strengths,
    draw_labels,
    fit_logistic,
    fit_strengths,
    in_percent,
    logits,
    topk_accuracy,
)
from contrastive.seeding import generator


class FewShot(Evaluator):
    """Mean test accuracy of logistic regressions on `shots` labeled images of each class, over fixed draws.

    Args:
        shots: training images of each class, at least 1. l2: strength of at least 0. draws: at least 1.
        max_iter: L-BFGS iterations per fit.
        every: epochs between points of a curve; 0 = only before and after training.

    Raises:
        ConfigError: an argument out of range.
    """

    def __init__(
        self, *, shots: int = 5, l2: float = 1e-2, draws: int = 5, max_iter: int = 100, every: int = 0
    ) -> None:
        for name, value, example in (("shots", shots, 5), ("draws", draws, 5), ("max_iter", max_iter, 100)):
            if not value >= 1:
                raise ConfigError(
                    f"evaluator.few_shot.{name} must be at least 1, got {value}: "
                    f"try evaluator.few_shot.{name}={example}"
                )
        check_strengths("evaluator.few_shot.l2", [l2], example="1e-2")
        self.shots, self.l2, self.draws, self.max_iter, self.every = shots, l2, draws, max_iter, every
        self.protocol = (
            f"logistic regression (strength {l2:g}) on {shots} labeled training images of each class, mean over "
            f"{draws} fixed draws; last epoch"
        )

    def __call__(self, features: FeatureSets) -> Scores:
        train, test, n = features.train, features.test, features.n_classes
        standardize = Standardizer(train.h)
        x, x_test = standardize(train.h), standardize(test.h)
        top1 = []
        for draw in range(self.draws):
            order = torch.randperm(len(x), generator=generator("cpu", "few shot", draw)).to(x.device)
            label = train.label[order]
            chosen = torch.cat([order[label == c][: self.shots] for c in range(n)])
            weight = fit_logistic(x[chosen], train.label[chosen], n_classes=n, l2=self.l2, max_iter=self.max_iter)
            top1.append(topk_accuracy(logits(weight, x_test), test.label, 1))
        return Scores(test={"top1": sum(top1) / len(top1)})


class FewLabel(Evaluator):
    """Mean test accuracy of logistic regressions on a fraction of the labels of each class, over fixed draws.

    The fractions are those of the semi-supervised protocol (Chen et al. 2020, §4.1), at least one image of each class.
    For each draw the strength with the highest accuracy on all validation images (the strongest of equals) is chosen,
    and `test` is read once; nothing is refitted.

    Args:
        fractions: of the nine tenths of the training images that probes fit, each in (0, 1].
        l2: strengths of at least 0. draws: at least 1. max_iter: L-BFGS iterations per fit, at least 1.
        every: epochs between points of a curve; 0 = only before and after training.

    Raises:
        ConfigError: an argument out of range.
    """

    def __init__(
        self,
        *,
        fractions: tuple[float, ...] = (0.01, 0.1),
        l2: tuple[float, ...] = (1e-1, 1e-2, 1e-3),
        draws: int = 5,
        max_iter: int = 100,
        every: int = 0,
    ) -> None:
        check_fractions("few_label", fractions)
        check_strengths("evaluator.few_label.l2", l2, example="[1e-1,1e-2]")
        for name, value, example in (("draws", draws, 5), ("max_iter", max_iter, 100)):
            if not value >= 1:
                raise ConfigError(
                    f"evaluator.few_label.{name} must be at least 1, got {value}: "
                    f"try evaluator.few_label.{name}={example}"
                )
        self.fractions, self.l2 = tuple(fractions), sorted(l2, reverse=True)
        self.draws, self.max_iter, self.every = draws, max_iter, every
        shares = " and ".join(f"{100 * fraction:g} %" for fraction in fractions)
        self.protocol = (
            f"logistic regression on standardized frozen features (L-BFGS), {shares} of the labels of each class, "
            f"strength chosen on probe_val, mean over {draws} fixed draws; last epoch"
        )

    def __call__(self, features: FeatureSets) -> Scores:
        test, val = {}, {}
        for fraction in self.fractions:
            draws = [self._fit(features, fraction, draw) for draw in range(self.draws)]
            name = f"{in_percent(fraction)}_top1"
            val[name], test[name] = mean(draw[0] for draw in draws), mean(draw[1] for draw in draws)
        return Scores(test=test, val=val)

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
