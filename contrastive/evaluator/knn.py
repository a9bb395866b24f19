"""Weighted k-nearest-neighbor classification, the label-free monitor of the field."""

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.evaluator._accuracy import top
from contrastive.types import Features

CHUNK = 1000  # queries at a time: 1,000 × 50,000 similarities are 200 MB


def vote(bank: Tensor, bank_label: Tensor, query: Tensor, *, n_classes: int, k: int, temperature: float) -> Tensor:
    """Class scores of each query (Wu et al. 2018, §3.4): Σ over its k nearest of e^{cos / temperature}, by class.

    Args:
        bank (N, F), bank_label (N,), query (Q, F): features, normalized here; similarities are float32.

    Returns:
        (Q, n_classes).
    """
    bank, query = F.normalize(bank.float(), dim=1), F.normalize(query.float(), dim=1)
    scores = []
    for chunk in query.split(CHUNK):
        similarity, index = (chunk @ bank.T).topk(k, dim=1)
        weight = (similarity / temperature).exp()
        score = torch.zeros(len(chunk), n_classes, device=bank.device)
        scores.append(score.scatter_add_(1, bank_label[index], weight))
    return torch.cat(scores)


def knn(bank: Features, query: Features, *, n_classes: int, k: int, temperature: float) -> dict[str, float]:
    """knn_top1 and knn_top5 in percent; k is lowered to a tenth of the labeled bank."""
    labeled = bank.label >= 0
    h, label = bank.h[labeled], bank.label[labeled]
    scores = vote(h, label, query.h, n_classes=n_classes, k=max(1, min(k, len(h) // 10)), temperature=temperature)
    return {"knn_top1": top(scores, query.label, 1), "knn_top5": top(scores, query.label, 5)}
