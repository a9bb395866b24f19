"""Geometry of the features: alignment and uniformity on the unit sphere, effective rank, decay of the spectrum."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.evaluator.base import Evaluator, FeatureSets, Scores
from contrastive.seeding import generator

MAX_IMAGES = 2000  # two million pairs
EPSILON = 1e-7  # of RankMe


def alignment(x: Tensor, y: Tensor, alpha: float = 2) -> Tensor:
    """mean |x - y|^α over matching rows of two sets of unit vectors (B, D) (Wang & Isola 2020, §4.1)."""
    distance: Tensor = (x - y).norm(dim=1)
    return distance.pow(alpha).mean()


def uniformity(x: Tensor, t: float = 2) -> Tensor:
    """log mean over i < j of e^{-t |x_i - x_j|²} for unit vectors x (B, D) (Wang & Isola 2020, §4.1); NaN for B = 1."""
    return torch.pdist(x).pow(2).mul(-t).exp().mean().log()


@dataclass(kw_only=True)
class AlignmentUniformity(Evaluator):
    """alignment: mean squared distance of test images of the same class; uniformity: over all pairs (t = 2).

    Both use L2-normalized features of at most 2,000 test images, a fixed draw. The paper's alignment is over
    two views of an image. Frozen features hold one view, so images of a class replace views of an image. Lower is
    better. Without labels there is no alignment, and for a single image neither.
    """

    protocol = (
        "L2-normalized features of at most 2,000 test images: mean |x - y|² over pairs of the same class, and log mean "
        "e^{-2 |x - y|²} over all pairs (Wang & Isola 2020); last epoch"
    )
    needs_labels = False
    reads_training = False

    def __call__(self, features: FeatureSets) -> Scores:
        n = len(features.test.h)
        chosen = torch.randperm(n, generator=generator("cpu", "alignment and uniformity"))[:MAX_IMAGES]
        test = features.test[chosen.to(features.test.h.device)]
        x = F.normalize(test.h, dim=1)
        i, j = torch.triu_indices(len(x), len(x), 1, device=x.device)
        squared = torch.pdist(x).square()
        same = (test.label[i] == test.label[j]) & (test.label[i] >= 0)
        values = {"uniformity": squared.mul(-2).exp().mean().log().item()} if len(x) > 1 else {}
        if same.any():
            values["alignment"] = squared[same].mean().item()
        return Scores(test=values)


@dataclass(kw_only=True)
class RankMe(Evaluator):
    """exp(entropy of the normalized singular values) of the test features (Garrido et al. 2023, eq. 1).

        p_k = σ_k / Σ_j σ_j + 1e-7,   RankMe = exp( -Σ_k p_k log p_k )

    between 1 (collapsed to one direction) and the smaller of the number of images and of dimensions.
    """

    protocol = "exp of the entropy of the singular values of the test features (Garrido et al. 2023); last epoch"
    needs_labels = False
    reads_training = False

    def __call__(self, features: FeatureSets) -> Scores:
        values = torch.linalg.svdvals(features.test.h)
        p = values / values.sum().clamp(min=EPSILON) + EPSILON
        return Scores(test={"": torch.special.entr(p).sum().exp().item()})


@dataclass(kw_only=True)
class AlphaReQ(Evaluator):
    """How fast the spectrum of the features decays: λ_k ∝ k^-α (Agrawal et al. 2022, α-ReQ).

    α is minus the slope of log λ_k over log k by least squares, k = first ... last, for the eigenvalues λ of the
    covariance of the test features; those below 1e-7 of the largest are left out. Much above 1 the features have
    collapsed to few directions, and much below 1 they look like noise.

    Args:
        first: first eigenvalue of the fit, at least 1. The authors choose the range for each network.
        last: last eigenvalue of the fit, above `first`.

    """

    protocol = "minus the slope of log eigenvalue over log rank, covariance of the test features (α-ReQ); last epoch"
    needs_labels = False
    reads_training = False
    first: int = 1
    last: int = 100

    def __call__(self, features: FeatureSets) -> Scores:
        h = features.test.h.double()
        values = torch.linalg.svdvals(h - h.mean(0)).square()
        rank = torch.arange(1, len(values) + 1, device=values.device)
        chosen = (rank >= self.first) & (rank <= self.last) & (values > EPSILON * values[0])
        if chosen.sum() < 2:
            return Scores()
        x, y = rank[chosen].double().log(), values[chosen].log()
        x = x - x.mean()
        return Scores(test={"": -((x * y).sum() / x.square().sum()).item()})
