"""Retrieval of test images of the same class."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from contrastive.errors import check_at_least
from contrastive.evaluator.base import Evaluator, FeatureSets, Scores
from contrastive.types import Features

CHUNK = 500  # queries at a time: 500 × 50,000 similarities and their order are 300 MB


def retrieval(features: Features, k: tuple[int, ...]) -> dict[str, float]:
    """Recall@k and mean average precision in percent, by the cosine; nothing if no image shares its class.

    Every labeled image is a query that searches all others. An image that is alone in its class is not a query.

        Recall@k = share of queries with an image of their class among the k nearest (Oh Song et al. 2016, §5)
        AP = 1/R Σ_r precision at the rank of the r-th of the R images of the class;  mAP = mean over queries
    """
    labeled = features[features.label >= 0]
    x, label = F.normalize(labeled.h, dim=1), labeled.label
    ranks = torch.arange(1, len(x), device=x.device)
    recall, average_precision = [], []
    for rows in torch.arange(len(x), device=x.device).split(CHUNK):
        similarity = x[rows] @ x.T
        similarity[torch.arange(len(rows)), rows] = -torch.inf  # the query itself comes last
        order = similarity.argsort(dim=1, descending=True, stable=True)[:, :-1]
        relevant = label[order] == label[rows, None]
        is_query = relevant.any(1)
        hits = relevant[is_query]
        recall.append(torch.stack([hits[:, :n].any(1) for n in k], 1).double())
        precision = hits.cumsum(1).double() / ranks
        average_precision.append((precision * hits).sum(1) / hits.sum(1))
    mean_recall, average = torch.cat(recall).mean(0), torch.cat(average_precision)
    if len(average) == 0:
        return {}
    values = {f"recall_at_{n}": 100 * value for n, value in zip(k, mean_recall.tolist(), strict=True)}
    return values | {"map": 100 * average.mean().item()}


@dataclass(kw_only=True)
class Retrieval(Evaluator):
    """Recall@k and mean average precision of test images that search test images of their class.

    Nothing is trained or chosen. The validation metrics are the same among the validation images.

    Args:
        k: neighbors looked at, each at least 1.
    """

    protocol = (
        "cosine among test images: share of queries with an image of their class among the k nearest, and mean "
        "average precision over the whole ranking; last epoch"
    )

    k: tuple[int, ...] = (1, 5, 10)
    every: int = 0

    def __post_init__(self) -> None:
        check_at_least("evaluator.retrieval.k", self.k, 1, example="[1,5,10]")

    def __call__(self, features: FeatureSets) -> Scores:
        return Scores(test=retrieval(features.test, self.k), val=retrieval(features.val, self.k))
