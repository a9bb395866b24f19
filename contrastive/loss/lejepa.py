"""LeJEPA: views near their mean, projections that are a standard normal distribution along random directions.

Views are kept together, and the projections of a batch are made to look Gaussian along every random direction. There
are no negatives and there is no teacher.

:title: LeJEPA
:data: pairs
:when: A control without negatives, with one weight to choose.
:memory: B
:checked: authors
:cite: balestriero2025lejepa
:related: visreg, vicreg, barlow
"""

import math

import torch
from torch import Tensor

from contrastive.loss._views import Sliced

KNOTS, LIMIT = 17, 3.0  # of the integral


class LeJEPA(Sliced):
    """Keep views together and make the projections a standard normal distribution (Balestriero & LeCun 2025).

        L = (1 - λ) · mean (z_v - c)² + λ · SIGReg
        SIGReg = mean B ∫ |mean_i e^{i t x_i} - e^{-t²/2}|² e^{-t²/2} dt,   x_i = a·z_i

    c is the mean over the views of an image. The second mean is over views and over M unit directions a, drawn anew for
    each step, and the integral from -3 to 3 the trapezoidal rule with 17 knots on its half: the statistic of Epps and
    Pulley. It grows with B, so a larger batch counts as a larger λ. Projections are plain (not normalized).

    Args:
        lam: λ in [0, 1] (0.01 to 0.1 in the paper).
        n_directions: M >= 1.

    Shapes: z (B, V, D) → scalar. Made for a head of 2048, 2048 and 64 dimensions: `head.n_layers=3
    head.hidden_dim=2048 head.out_dim=64`.

    Raises:
        ConfigError: an argument out of range.

    The same as the authors' code, which draws 256 directions in its smallest example. Their c is the mean over the
    global crops, while here all views are of one kind. A loop of your own draws new directions by
    `loss.after_step(contrastive.gather)` after each step.

    >>> import torch
    >>> from contrastive import LeJEPA
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> LeJEPA()(z0, z1)
    tensor(0.0555)
    """

    def __init__(self, *, lam: float = 0.05, n_directions: int = 1024) -> None:
        super().__init__(lam=lam, n_directions=n_directions)

    def regularization(self, z: Tensor, directions: Tensor) -> Tensor:
        x, step = directions @ z.mT, LIMIT / (KNOTS - 1)  # (V, M, B)
        errors = [_error(x, step * k) for k in range(KNOTS)]  # one knot at a time: a CPU holds its angles in the cache
        return 2 * x.shape[2] * torch.trapezoid(torch.stack(errors), dx=step)


def _error(x: Tensor, t: float) -> Tensor:
    """The integrand at t, its mean over views and directions."""
    angle, normal = t * x, math.exp(-t * t / 2)
    return normal * ((angle.cos().mean(2) - normal).square() + angle.sin().mean(2).square()).mean()
