"""Kernel contrastive loss.

A Gaussian kernel measures how near two views are. Its mean over pairs is raised, its mean over other images lowered.

:title: Kernel contrastive loss
:data: pairs, noisy pairs
:when: You want a loss whose expectation does not depend on the batch size, or views are noisy.
:memory: B
:checked: authors
:cite: koromilas2024bridging
:related: dhel, spectral, mmcl
"""

import math

from torch import Tensor

from contrastive.errors import check_above
from contrastive.loss.dhel import SameViewLoss, same_view
from contrastive.pairs.pairs import Pairs


class KCL(SameViewLoss):
    """Align the views of an image and spread the images of each view by a kernel (Koromilas et al. 2024, KCL).

        L = -2 mean_i K(x_i, y_i) + γ [ mean_{i≠j} K(x_i, x_j) + mean_{i≠j} K(y_i, y_j) ],  K(x, y) = e^{-τ |x - y|²}

    with the views x and y of an image on the unit sphere. It is a sum of kernels without a log, so its expectation does
    not depend on the batch size. With two sources each is spread by itself, so `across="both"` changes nothing.

    Push: γ mean_j e^{s_j} / e^{s+} over the B - 1 other images j of the anchor's view, with s = 2 τ cos.

    Args:
        scale: τ > 0 of the kernel.
        gamma: γ > 0, weight of the spread.

    Shapes: z (B, V, D) → scalar.

    Raises:
        ConfigError: an argument out of range.

    This is the Gaussian kernel, the default of the authors' five, with their τ = 2 and γ = 16.

    >>> import torch
    >>> from contrastive import KCL
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> KCL()(z0, z1)
    tensor(-0.9036)
    """

    def __init__(self, *, scale: float = 2.0, gamma: float = 16.0) -> None:
        check_above("scale", scale, 0, example=2.0)
        check_above("gamma", gamma, 0, example=16.0)
        super().__init__(temperature=1 / (2 * scale))  # K = e^{s - 1/t}
        self.gamma = gamma

    def per_anchor(self, pairs: Pairs) -> Tensor:
        alignment = (pairs.positive_logits[:, 0] - 1 / self.temperature).exp()
        mean_kernel = pairs.log_sum_exp(same_view) - math.log(pairs.n_images - 1) - 1 / self.temperature
        return 2 * (self.gamma * mean_kernel.exp() - alignment)
