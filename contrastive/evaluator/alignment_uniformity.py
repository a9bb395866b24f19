"""How the embeddings lie on the sphere (Wang & Isola 2020)."""

import torch
from torch import Tensor

from contrastive.pairs.pairs import Pairs
from contrastive.pairs.relations import other_image


def alignment(x: Tensor, y: Tensor, alpha: float = 2) -> Tensor:
    """mean |x - y|^α over matching rows of two sets of unit vectors, both (B, D)."""
    return (x - y).norm(dim=1).pow(alpha).mean()


def uniformity(x: Tensor, t: float = 2) -> Tensor:
    """log mean over i < j of e^{-t |x_i - x_j|²} for unit vectors x (B, D); undefined for B = 1."""
    return torch.pdist(x).pow(2).mul(-t).exp().mean().log()


@torch.no_grad()
def geometry(pairs: Pairs) -> dict[str, Tensor]:
    """Mean cosine of positives and of negatives, alignment of views 0 and 1 and uniformity of view 0."""
    out = {"uniformity": uniformity(pairs.z[:, 0])}
    if pairs.n_views > 1:
        out["positive_similarity"] = pairs.positive_logits.mean() * pairs.temperature
        out["alignment"] = alignment(pairs.z[:, 0], pairs.z[:, 1])
    out["negative_similarity"] = pairs.mean_logit(other_image).mean() * pairs.temperature
    return out
