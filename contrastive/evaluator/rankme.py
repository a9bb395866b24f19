"""RankMe: the effective rank of the features, a measure that needs no labels."""

import torch

from contrastive.evaluator.base import Evaluator, FeatureSets

EPSILON = 1e-7


class RankMe(Evaluator):
    """exp(entropy of the normalized singular values) of the test features (Garrido et al. 2023, eq. 1).

        p_k = σ_k / Σ_j σ_j + 1e-7,   RankMe = exp( -Σ_k p_k log p_k )

    between 1 (collapsed to one direction) and the smaller of the number of images and of dimensions.

    Args:
        every: epochs between points of a curve; 0 = only before and after training.
    """

    protocol = "exp of the entropy of the singular values of the test features (Garrido et al. 2023); last epoch"
    needs_labels = False

    def __init__(self, *, every: int = 0) -> None:
        self.every = every

    def __call__(self, features: FeatureSets) -> dict[str, float]:
        values = torch.linalg.svdvals(features.test.h)
        p = values / values.sum().clamp(min=EPSILON) + EPSILON
        return {"": torch.special.entr(p).sum().exp().item()}
