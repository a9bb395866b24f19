"""Nearest neighbors with k and the temperature chosen on the validation images."""

import itertools

from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.evaluator._accuracy import topk_accuracy
from contrastive.evaluator.base import Evaluator, FeatureSets, Scores
from contrastive.evaluator.knn import at_most_a_tenth, nearest, vote
from contrastive.types import Features


class KNNSweep(Evaluator):
    """Test accuracy of weighted nearest neighbors (Wu et al. 2018, §3.4), k and t chosen on the validation images.

    Validation images search their neighbors in the other nine tenths of the training images. The pair with the highest
    accuracy (the first of equals, k before t) is read once on the test split, with all labeled training images as bank.
    `k` and `temperature` among the figures are the chosen ones.

    Args:
        k: neighbors to try, each at least 1 and lowered to a tenth of the bank.
        temperature: of the weights e^{cos / t} to try, each above 0.
        every: epochs between points of a curve; 0 = only before and after training.

    Raises:
        ConfigError: an argument out of range.
    """

    def __init__(
        self,
        *,
        k: tuple[int, ...] = (1, 5, 10, 20, 50, 100, 200),
        temperature: tuple[float, ...] = (0.07, 0.1, 0.2, 0.5),
        every: int = 0,
    ) -> None:
        if not k or not min(k) >= 1:
            raise ConfigError(
                f"evaluator.knn_sweep.k is a list of numbers of at least 1, got {list(k)}: "
                "try evaluator.knn_sweep.k=[5,20,200]"
            )
        if not temperature or not all(0 < t < float("inf") for t in temperature):
            raise ConfigError(
                f"evaluator.knn_sweep.temperature is a list of numbers above 0, got {list(temperature)}: "
                "try evaluator.knn_sweep.temperature=[0.07,0.5]"
            )
        self.k, self.temperature, self.every = tuple(k), tuple(temperature), every
        self.protocol = (
            f"cosine, k of {', '.join(map(str, k))} (at most a tenth of the bank) and weights exp(cos/t) with t of "
            f"{', '.join(f'{t:g}' for t in temperature)} chosen on probe_val, bank = labeled training images; "
            "last epoch"
        )

    def __call__(self, features: FeatureSets) -> Scores:
        train, val, test, bank = features.train, features.val, features.test, features.bank
        similarity, label = _neighbors(train, val, max(self.k))
        best, best_top1 = (self.k[0], self.temperature[0]), -1.0
        for k, t in itertools.product(self.k, self.temperature):
            n = at_most_a_tenth(k, train)
            scores = vote(similarity[:, :n], label[:, :n], n_classes=features.n_classes, temperature=t)
            top1 = topk_accuracy(scores, val.label, 1)
            if top1 > best_top1:
                best, best_top1 = (k, t), top1
        similarity, label = _neighbors(bank, test, best[0])
        scores = vote(similarity, label, n_classes=features.n_classes, temperature=best[1])
        chosen = {"k": float(label.shape[1]), "temperature": best[1]}
        return Scores(
            test={**{f"top{n}": topk_accuracy(scores, test.label, n) for n in (1, 5)}, **chosen},
            val={"top1": best_top1},
            predictions={"": scores.argmax(1)},
        )


def _neighbors(bank: Features, query: Features, k: int) -> tuple[Tensor, Tensor]:
    """Cosines and labels (Q, k) of the nearest of the bank."""
    similarity, index = nearest(bank.h, query.h, at_most_a_tenth(k, bank))
    return similarity, bank.label[index]
