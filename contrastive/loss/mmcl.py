"""Max-margin contrastive learning."""

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.loss.base import Loss


class MMCL(Loss):
    """Each image against the others as a kernel support-vector machine, solved in closed form (Shah et al. 2022).

    With K(x, y) = e^{-(2 - 2 x·y) / σ}, negatives a_1..a_B (view 0) and k_i = K(a, a_i):

        Δ_i = 1 1ᵀ + reg I + K_NN - k_i 1ᵀ - 1 k_iᵀ over the others,  α_i = clamp(2 Δ_i⁻¹ 1, 0, C), held constant
        L = (1/B) Σ_i [ Σ_j α_ij K(p_i, a_j) - Σ_j α_ij K(a_i, p_i) ]

    Args:
        sigma: σ > 0, the kernel's width. C: upper bound of α, -1 = none. reg: added to the diagonal, above 0.

    Raises:
        ConfigError: an argument out of range.

    As the authors' CIFAR code (its closed-form solver). Memory grows with B³, time with B⁴: for batches of hundreds.
    """

    min_views = 2
    exempt_from = {
        "view order": "the machines are trained on view 0",
        "gradient": "the machines' weights are held constant",
    }

    def __init__(self, *, sigma: float, C: float, reg: float) -> None:
        super().__init__()
        if not sigma > 0:
            raise ConfigError(f"sigma must be above 0, got {sigma}: try loss.sigma=2.0")
        if not C > 0 and C != -1:
            raise ConfigError(f"C must be above 0, or -1 for no bound, got {C}: try loss.C=-1")
        if not reg > 0:
            raise ConfigError(f"reg must be above 0, got {reg}: try loss.reg=0.1")
        self.sigma, self.C, self.reg = sigma, C, reg

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
        z = F.normalize(z, dim=-1)
        anchor, mate, n = z[:, 0], z[:, 1], len(z)
        if n == 1:
            return z.sum() * 0
        each = torch.arange(n, device=z.device)
        others = (each[:, None] + each[None, 1:]) % n  # (B, B - 1): everyone but i
        with torch.no_grad():
            kernel = self.kernel(anchor, anchor)
            own = kernel.gather(1, others)
            delta = 1 + kernel[others[:, :, None], others[:, None, :]] - own[:, :, None] - own[:, None, :]
            delta.diagonal(dim1=1, dim2=2).add_(self.reg)
            alpha = torch.linalg.solve(delta, torch.full_like(own, 2.0)).clamp(min=0)
            if self.C > 0:
                alpha = alpha.clamp(max=self.C)
        across = self.kernel(mate, anchor)
        return ((alpha * across.gather(1, others)).sum(1) - alpha.sum(1) * across.diagonal()).mean()

    def kernel(self, x: Tensor, y: Tensor) -> Tensor:
        """K between all rows of x and y, unit vectors."""
        return ((x @ y.T - 1) * (2 / self.sigma)).exp()
