"""Sigmoid loss: every pair is classified by itself.

Of every pair it asks by itself whether the two belong together. There is no sum over the batch to share.

:title: Sigmoid loss (SigLIP, SigCLR)
:data: pairs, noisy pairs, two encoders
:when: Images and texts, many processes, or a first alternative to NT-Xent.
:memory: B
:checked: formula
:cite: zhai2023siglip, cagatan2024sigclr
:related: nt_xent, spectral
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive.errors import check_at_least
from contrastive.loss.base import SelfSupervisedLoss
from contrastive.pairs.pairs import Pairs
from contrastive.pairs.relations import other_image


class Sigmoid(SelfSupervisedLoss):
    """Is this pair two views of one image? (Zhai et al. 2023, SigLIP; SigCLR, Çağatan 2024, for one modality)

        L_i = softplus(-(s+ + b)) + Σ_j softplus(s_j + b)

    over the N = 2B - 2 views j of other images. b is learned. t can be learned, too; SigCLR found a fixed one better.

    Push: Σ_j σ(s_j + b) / σ(-s+ - b) with the logistic σ: what b makes of it.

    Args:
        temperature: t > 0, at the start if it is learned.
        batch_size: of the training. It sets the initial b = -log(2 · batch_size - 2), so that a pair is predicted
            positive as often as pairs are.
        learn_temperature: learn log t, too, as SigLIP does.

    Shapes: z (B, V, D) → scalar.

    Raises:
        ConfigError: an argument out of range.

    SigLIP starts at b = -10 and t = 0.1 and compares across two modalities only. `across="both"` is exactly its loss.
    There N = B - 1, so pass half of the batch as `batch_size` for a fitting initial b.

    >>> import torch
    >>> from contrastive import Sigmoid
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> Sigmoid(batch_size=3)(z0, z1).detach()
    tensor(1.1015)
    """

    def __init__(self, *, temperature: float = 0.5, batch_size: int = 512, learn_temperature: bool = False) -> None:
        super().__init__(temperature=temperature)
        check_at_least("batch_size", batch_size, 2, example=512)
        self.bias = nn.Parameter(torch.tensor(-math.log(2 * batch_size - 2)))
        self.log_factor = nn.Parameter(torch.zeros(())) if learn_temperature else None  # of 1 / t

    def pairs(
        self, z: Tensor, label: Tensor | None = None, bias: Tensor | None = None, anchors: slice = slice(None)
    ) -> list[Pairs]:
        groups = super().pairs(z, label, bias, anchors)
        if self.log_factor is not None:
            for pairs in groups:
                pairs.temperature = self.temperature / self.log_factor.exp()
        return groups

    def per_anchor(self, pairs: Pairs) -> Tensor:
        # Σ_j softplus(x_j) = Σ_j x_j + softplus(-x_j), and `Pairs` knows the means of both
        minus_bias = -self.bias.expand(len(pairs.anchors))
        apart = pairs.mean_logit(other_image) - minus_bias + pairs.mean_softplus(other_image, minus_bias)
        n = pairs.count(other_image) if pairs.has_equal_ids else pairs.n_negatives
        return F.softplus(minus_bias - pairs.positive_logits[:, 0]) + n * pairs.repel(apart)
