"""The few-shot probe: logistic regression on a handful of labels."""

import torch

from contrastive.errors import ConfigError
from contrastive.evaluator._accuracy import topk_accuracy
from contrastive.evaluator._logistic import Standardizer, check_strengths, fit_logistic, logits
from contrastive.evaluator.base import Evaluator, FeatureSets
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

    def __call__(self, features: FeatureSets) -> dict[str, float]:
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
        return {"top1": sum(top1) / len(top1)}
