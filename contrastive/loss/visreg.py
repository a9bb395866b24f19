"""VISReg: views near their mean, dimensions of mean 0 and variance 1, and a normal shape along random directions.

Views are kept together. Center and scale of each dimension are set apart from the shape of the projections, which is
made Gaussian along random directions. There are no negatives and there is no teacher.

:title: VISReg
:data: pairs
:when: As `lejepa`, where the projections collapse.
:memory: B
:checked: formula
:cite: wu2026visreg
:related: lejepa, vicreg, barlow
"""

import math

import torch
from torch import Tensor

from contrastive.errors import check_at_least
from contrastive.loss._views import Sliced


class VISReg(Sliced):
    """Keep views together, and center, scale and shape of the batch those of a normal distribution (Wu et al. 2026).

        L = (1 - λ) · mean (z_v - c)² + λ · (scale · mean_d (1 - σ_d)² + shape · mean (x_(i) - Φ⁻¹(i/(B+1)))²
            + center · mean_d μ_d²)

    c is the mean over the views of an image, and μ_d and σ_d are mean and deviation of dimension d in the batch of one
    view. x are the standardized projections along M unit directions, drawn anew for each step, and x_(i) is the i-th
    smallest of the batch. Each term is the mean over the views. The gradient takes the σ_d in x as constants.
    Projections are plain (not normalized).

    Args:
        lam: λ in [0, 1] (0.9 in the paper, 0.6 for small data).
        scale: weight of the deviations, at least 0 (1 in the paper).
        shape: weight of the shape, at least 0 (1 in the paper).
        center: weight of the means, at least 0 (1 in the paper).
        n_directions: M >= 1.

    Shapes: z (B, V, D) → scalar.

    Raises:
        ConfigError: an argument out of range.

    1e-4 is added to the σ_d in x, as in lightly. The authors' code takes max(σ_d, 1e-6) instead. A loop of your own
    draws new directions by `loss.after_step(contrastive.gather)` after each step.

    >>> import torch
    >>> from contrastive import VISReg
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> VISReg()(z0, z1)
    tensor(0.3665)
    """

    exempt_from = {**Sliced.exempt_from, "gradient": "the deviations in the shape are constants for it"}

    def __init__(
        self, *, lam: float = 0.9, scale: float = 1.0, shape: float = 1.0, center: float = 1.0, n_directions: int = 4096
    ) -> None:
        super().__init__(lam=lam, n_directions=n_directions)
        check_at_least("scale", scale, 0, example=1.0)
        check_at_least("shape", shape, 0, example=1.0)
        check_at_least("center", center, 0, example=1.0)
        self.scale, self.shape, self.center = scale, shape, center

    def regularization(self, z: Tensor, directions: Tensor) -> Tensor:
        deviation, mean = z.std(1, correction=0, keepdim=True), z.mean(1, keepdim=True)
        x = directions @ ((z - mean) / (deviation.detach() + 1e-4)).mT  # (V, M, B)
        place = torch.arange(1, x.shape[2] + 1, dtype=z.dtype, device=z.device) / (x.shape[2] + 1)
        quantile = math.sqrt(2) * (2 * place - 1).erfinv()
        shape = (x.sort().values - quantile).square().mean()
        scale = (1 - deviation).square().mean()
        return self.scale * scale + self.shape * shape + self.center * mean.square().mean()
