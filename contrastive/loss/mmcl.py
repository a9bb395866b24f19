"""Max-margin contrastive learning.

A support-vector machine separates each image from the others. Its support vectors are the negatives that count.

:title: Max-margin contrastive learning
:data: pairs
:when: Batches of hundreds, and hard negatives are to be chosen rather than weighted.
:memory: B³
:checked: authors
:cite: shah2022mmcl
:related: hard_negative, triplet, kcl
"""

import torch
from torch import Tensor

from contrastive.errors import check_above
from contrastive.loss.base import Loss
from contrastive.types import unit


class MMCL(Loss):
    """Separate each image from the others by a kernel support-vector machine in closed form (Shah et al. 2022).

    With K(x, y) = e^{-(2 - 2 x·y) / σ}, negatives a_1..a_B (view 0) and k_i = K(a, a_i):

        Δ_i = 1 1ᵀ + reg I + K_NN - k_i 1ᵀ - 1 k_iᵀ over the others,  α_i = clamp(2 Δ_i⁻¹ 1, 0, C), held constant
        L = (1/B) Σ_i [ Σ_j α_ij K(p_i, a_j) - Σ_j α_ij K(a_i, p_i) ]

    Push: Σ_j α_ij K(p_i, a_j) / (K(a_i, p_i) Σ_j α_ij), with p_i in the place of the anchor.

    Args:
        sigma: σ > 0, the width of the kernel.
        penalty: C, the upper bound of α; -1 = none.
        reg: added to the diagonal, above 0.

    Shapes: z (B, V, D) → scalar; views beyond the second are not used.

    Raises:
        ConfigError: an argument out of range.

    The same as the authors' CIFAR code (its closed-form solver). Memory grows with B³ and time with B⁴, so use it with
    batches of some hundred images.

    >>> import torch
    >>> from contrastive import MMCL
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> MMCL()(z0, z1)
    tensor(-0.9484)
    """

    min_views = 2
    exempt_from = {
        "view order": "the machines are trained on view 0",
        "gradient": "the machines' weights are held constant",
    }

    def __init__(self, *, sigma: float = 2.0, penalty: float = -1, reg: float = 0.1) -> None:
        super().__init__()
        check_above("sigma", sigma, 0, example=2.0)
        if penalty != -1:  # no bound
            check_above("penalty", penalty, 0, example=-1)
        check_above("reg", reg, 0, example=0.1)
        self.sigma, self.penalty, self.reg = sigma, penalty, reg

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice) -> Tensor:
        z = unit(z)
        view_0, view_1, n = z[:, 0], z[:, 1], len(z)
        if n == 1:
            return z.sum() * 0
        index = torch.arange(n, device=z.device)
        others = (index[:, None] + index[None, 1:]) % n  # (B, B - 1): every image except i
        with torch.no_grad():
            alpha = self._solve(self.kernel(view_0, view_0), others)
        across = self.kernel(view_1, view_0)
        return ((alpha * across.gather(1, others)).sum(1) - alpha.sum(1) * across.diagonal()).mean()

    def _solve(self, kernel: Tensor, others: Tensor) -> Tensor:
        """(B, B - 1): α_i over the others, for the kernel (B, B) between the images."""
        k = kernel.gather(1, others)
        delta = 1 + kernel[others[:, :, None], others[:, None, :]] - k[:, :, None] - k[:, None, :]
        delta.diagonal(dim1=1, dim2=2).add_(self.reg)
        alpha: Tensor = torch.linalg.solve_ex(delta, torch.full_like(k, 2.0))[0].clamp(min=0)
        return alpha.clamp(max=self.penalty) if self.penalty > 0 else alpha

    def kernel(self, x: Tensor, y: Tensor) -> Tensor:
        """K between all rows of x and y, unit vectors."""
        return ((x @ y.T - 1) * (2 / self.sigma)).exp()
