"""Barlow Twins: a loss without negatives.

The cross-correlation of two views is made the identity. There are no negatives.

:title: Barlow Twins
:data: pairs
:when: A control without negatives, with a wide projection.
:memory: D²
:checked: authors
:cite: zbontar2021barlow
:related: vicreg, spectral
"""

from itertools import combinations

import torch
from torch import Tensor

from contrastive.errors import check_at_least
from contrastive.loss._views import ViewsLoss


class BarlowTwins(ViewsLoss):
    """Make the cross-correlation of two views the identity, without negatives (Zbontar et al. 2021, eq. 1).

        L = Σ_d (1 - C_dd)² + λ Σ_{d≠e} C_de²,   C_de = mean_i x_id y_ie

    with every dimension of the views x and y standardized over the batch. It is the mean over all pairs of views.
    Memory grows with D², not with B².

    Args:
        lam: λ >= 0, 0.0051 in the paper.

    Shapes: z (B, V, D) → scalar. Made for wide projections: `head.out_dim=2048` and more (8192 in the paper).

    Raises:
        ConfigError: an argument out of range.

    The same as the authors' code, which adds 1e-5 to the variance before it standardizes.

    >>> import torch
    >>> from contrastive import BarlowTwins
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> BarlowTwins()(z0, z1)
    tensor(0.1301)
    """

    exempt_from = {"scale": "1e-5 is added to each variance"}

    def __init__(self, *, lam: float = 0.0051) -> None:
        super().__init__()
        check_at_least("lam", lam, 0, example=0.0051)
        self.lam = lam

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice) -> Tensor:
        if len(z) == 1:
            return z.sum() * 0
        z = z.transpose(0, 1)  # (V, B, D)
        z = (z - z.mean(1, keepdim=True)) * (z.var(1, correction=0, keepdim=True) + 1e-5).rsqrt()
        losses = []
        for x, y in combinations(z, 2):
            correlation = x.T @ y / len(x)
            diagonal = correlation.diagonal()
            off_diagonal = correlation.square().sum() - diagonal.square().sum()
            losses.append((1 - diagonal).square().sum() + self.lam * off_diagonal)
        return torch.stack(losses).mean()
