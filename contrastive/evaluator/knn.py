"""Weighted k-nearest-neighbor classification, which trains nothing, and a search over k and t."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import check_above, check_at_least
from contrastive.evaluator.base import Evaluator, FeatureSets, Scores, read_out, topk_accuracy
from contrastive.types import Features


@torch.no_grad()
def similarities(query: Tensor, bank: Tensor, *, rows: int, pairs: int) -> Iterator[tuple[slice, Tensor]]:
    """Some of the queries (Q, F) at a time, and their products with the bank (N, F), each in the memory of the last.

    A fresh matrix for each would grow the heap: what a caller keeps lies in the hole that the last one left, and the
    next does not fit.

    Args:
        rows: so many queries at once, fewer where they would make more than `pairs` products.
    """
    rows = max(1, min(rows, pairs // max(1, len(bank))))
    space = bank.new_empty(min(rows, len(query)), len(bank))
    for i, part in enumerate(query.split(rows)):
        yield slice(i * rows, (i + 1) * rows), torch.mm(part, bank.T, out=space[: len(part)])


def nearest(bank: Tensor, query: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Cosines (Q, k) of the k nearest of the bank (N, F) to each query (Q, F), falling, and their indices (Q, k)."""
    bank, query = F.normalize(bank.float(), dim=1), F.normalize(query.float(), dim=1)
    values = bank.new_empty(len(query), k)
    indices = torch.empty(len(query), k, dtype=torch.int64, device=bank.device)
    for rows, similarity in similarities(query, bank, rows=1000, pairs=2**26):  # 256 MB
        torch.topk(similarity, k, dim=1, out=(values[rows], indices[rows]))
    return values, indices


def vote(similarity: Tensor, label: Tensor, *, n_classes: int, temperature: float) -> Tensor:
    """(Q, C) class scores (Wu et al. 2018, §3.4): Σ over the neighbors of e^{cos / temperature}, by class.

    Scores of a query are divided by its largest weight, so that no temperature overflows.

    Args:
        similarity: (Q, k), cosines of the neighbors, falling.
        label: (Q, k), their classes.
        temperature: above 0.
    """
    weight = ((similarity - similarity[:, :1]) / temperature).exp()
    return torch.zeros(len(similarity), n_classes, device=similarity.device).scatter_add_(1, label, weight)


def at_most_a_tenth(k: int, bank: Features) -> int:
    """k, lowered to a tenth of the bank."""
    return max(1, min(k, len(bank.h) // 10))


@dataclass(kw_only=True)
class KNN(Evaluator):
    """Test accuracy of weighted nearest neighbors among the labeled training images.

    The curve is on the test split, as in the papers, and nothing is ever selected by it. The validation metric, for
    searches, has the other nine tenths of the training images as its bank.

    Args:
        k: neighbors, at least 1; lowered to a tenth of the bank.
        temperature: of the weights e^{cos / t}, above 0.
    """

    k: int = 200
    temperature: float = 0.5
    every: int = 5

    def __post_init__(self) -> None:
        check_at_least("evaluator.knn.k", self.k, 1, example=20)
        check_above("evaluator.knn.temperature", self.temperature, 0, example=0.5)
        self.protocol = (
            f"cosine, k={self.k} (at most a tenth of the bank), weights exp(cos/{self.temperature:g}), "
            "bank = labeled training images; last epoch"
        )

    def __call__(self, features: FeatureSets) -> Scores:
        scores = self._scores(features, features.bank, features.test)
        val = self._scores(features, features.train, features.val)
        return read_out(scores, features.test.label, topk_accuracy(val, features.val.label, 1))

    def _scores(self, features: FeatureSets, bank: Features, query: Features) -> Tensor:
        """(Q, C) class scores of the queries."""
        similarity, label = _neighbors(bank, query, self.k)
        return vote(similarity, label, n_classes=features.n_classes, temperature=self.temperature)


@dataclass(kw_only=True)
class KNNSweep(Evaluator):
    """Test accuracy of weighted nearest neighbors (Wu et al. 2018, §3.4), k and t chosen on the validation images.

    Neighbors of validation images are searched in the other nine tenths of the training images. The pair with the
    highest accuracy (the first of equals, k before t) is read once on the test split, with all labeled training images
    as bank.
    `k` and `temperature` among the metrics are the chosen ones.

    Args:
        k: neighbors to try, each at least 1 and lowered to a tenth of the images that validation images search.
        temperature: of the weights e^{cos / t} to try, each above 0.
    """

    k: tuple[int, ...] = (1, 5, 10, 20, 50, 100, 200)
    temperature: tuple[float, ...] = (0.07, 0.1, 0.2, 0.5)

    def __post_init__(self) -> None:
        check_above("evaluator.knn_sweep.temperature", self.temperature, 0, example="[0.07,0.5]")
        self.protocol = (
            f"cosine, k of {', '.join(map(str, self.k))} (at most a tenth of the other training images) and weights "
            f"exp(cos/t) with t of {', '.join(f'{t:g}' for t in self.temperature)} chosen on probe_val, bank = labeled "
            "training images; last epoch"
        )

    def __call__(self, features: FeatureSets) -> Scores:
        train, val = features.train, features.val
        similarity, label = _neighbors(train, val, max(self.k))
        top1 = {}
        for k, t in itertools.product(self.k, self.temperature):
            n = at_most_a_tenth(k, train)
            scores = vote(similarity[:, :n], label[:, :n], n_classes=features.n_classes, temperature=t)
            top1[n, t] = topk_accuracy(scores, val.label, 1)
        k, t = max(top1, key=lambda pair: top1[pair])
        found = KNN(k=k, temperature=t)(features)
        return replace(found, test={**found.test, "k": float(k), "temperature": t})


def _neighbors(bank: Features, query: Features, k: int) -> tuple[Tensor, Tensor]:
    """Cosines and labels (Q, k) of the nearest of the bank."""
    similarity, index = nearest(bank.h, query.h, at_most_a_tenth(k, bank))
    return similarity, bank.label[index]
