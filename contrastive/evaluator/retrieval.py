"""Retrieval of test images of the same class."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from contrastive.evaluator.base import Evaluator, FeatureSets, Scores
from contrastive.evaluator.knn import similarities
from contrastive.types import Features

PAIRS = 2**22  # similarities at a time: with their order and precisions they hold 0.3 GB


def retrieval(features: Features, k: tuple[int, ...]) -> dict[str, float]:
    """Recall@k and mean average precision in percent, by the cosine; nothing if no image shares its class.

    Every labeled image is a query that searches all others. An image that is alone in its class is not a query.

        Recall@k = share of queries with an image of their class among the k nearest (Oh Song et al. 2016, §5)
        AP = 1/R Σ_r precision at the rank of the r-th of the R images of the class;  mAP = mean over queries
    """
    labeled = features[features.label >= 0]
    x, label = F.normalize(labeled.h, dim=1), labeled.label
    ranks = torch.arange(1, len(x), device=x.device)
    recall = torch.empty(len(x), len(k), dtype=torch.float64, device=x.device)
    average_precision = torch.empty(len(x), dtype=torch.float64, device=x.device)
    for rows, similarity in similarities(x, x, rows=500, pairs=PAIRS):
        similarity.diagonal(rows.start).fill_(-torch.inf)  # the query itself comes last
        order = similarity.argsort(dim=1, descending=True, stable=True)[:, :-1]
        hits = label[order] == label[rows, None]
        recall[rows] = torch.stack([hits[:, :n].any(1) for n in k], 1).double()
        precision = hits.cumsum(1, dtype=torch.float64).div_(ranks)
        average_precision[rows] = precision.mul_(hits).sum(1) / hits.sum(1)
    is_query = ~average_precision.isnan()
    if not is_query.any():
        return {}
    mean_recall, average = recall[is_query].mean(0), average_precision[is_query]
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

    def __call__(self, features: FeatureSets) -> Scores:
        return Scores(test=retrieval(features.test, self.k), val=retrieval(features.val, self.k))
