"""Variance, invariance, covariance: a loss without negatives.

Views are kept together, every dimension keeps its variance, and dimensions are decorrelated. There are no negatives.

:title: VICReg
:data: pairs
:when: A control without negatives, with a wide projection.
:memory: D²
:checked: authors
:cite: bardes2022vicreg
:related: barlow, spectral
"""

from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import check_at_least
from contrastive.loss._views import ViewsLoss


class VICReg(ViewsLoss):
    """Keep views together, every dimension alive and dimensions apart, without negatives (Bardes et al. 2022, eq. 6).

        L = invariance · mean (x - y)² + variance · ½ Σ_views mean_d relu(1 - √(Var_d + 1e-4))
            + covariance · (1/D) Σ_views Σ_{d≠e} Cov_de²

    for two views x and y, plain (not normalized); the mean over all pairs of views. Memory grows with D², not with B².

    Args:
        invariance: weights, at least 0 (25, 25, 1 in the paper).
        variance: weights, at least 0 (25, 25, 1 in the paper).
        covariance: weights, at least 0 (25, 25, 1 in the paper).

    Shapes: z (B, V, D) → scalar. Made for wide projections: `head.out_dim=2048` and more (8192 in the paper).

    Raises:
        ConfigError: an argument out of range.

    The same as the authors' code, which takes half of the paper's variance term.

    >>> import torch
    >>> from contrastive import VICReg
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> VICReg()(z0, z1)
    tensor(8.5240)
    """

    exempt_from = {"scale": "variances are compared with 1"}

    def __init__(self, *, invariance: float = 25.0, variance: float = 25.0, covariance: float = 1.0) -> None:
        super().__init__()
        check_at_least("invariance", invariance, 0, example=25.0)
        check_at_least("variance", variance, 0, example=25.0)
        check_at_least("covariance", covariance, 0, example=1.0)
        self.invariance, self.variance, self.covariance = invariance, variance, covariance

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice) -> Tensor:
        if len(z) == 1:
            return z.sum() * 0
        z = z.transpose(0, 1)  # (V, B, D)
        invariance = torch.stack([F.mse_loss(x, y) for x, y in combinations(z, 2)]).mean()
        covariance = torch.stack([(x - x.mean(0)).T @ (x - x.mean(0)) / (len(x) - 1) for x in z])
        variances = covariance.diagonal(dim1=1, dim2=2)
        dead = F.relu(1 - (variances + 1e-4).sqrt()).mean()
        off_diagonal = (covariance.square().sum() - variances.square().sum()) / (len(z) * z.shape[2])
        return self.invariance * invariance + self.variance * dead + 2 * self.covariance * off_diagonal
