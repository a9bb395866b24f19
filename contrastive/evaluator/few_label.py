"""The few-label probe: logistic regression on 1 % and on 10 % of the labels."""

from statistics import mean

from contrastive.errors import ConfigError
from contrastive.evaluator._accuracy import topk_accuracy
from contrastive.evaluator._fractions import check_fractions, draw_labels, in_percent
from contrastive.evaluator._logistic import Standardizer, check_strengths, fit_strengths, logits
from contrastive.evaluator.base import Evaluator, FeatureSets, Scores


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
