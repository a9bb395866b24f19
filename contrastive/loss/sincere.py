"""SINCERE: each positive of the anchor's class against the other classes.

SupCon in which the positives of an anchor do not repel one another. Each stands by itself against the other classes.

:title: SINCERE
:data: labels
:when: As `supcon`, first where classes are large in a batch.
:memory: B
:checked: authors
:cite: feeney2023sincere
:related: supcon, eps_supinfonce
"""

import torch
from torch import Tensor

from contrastive.loss.base import SupervisedContrastiveLoss
from contrastive.pairs.pairs import Pairs
from contrastive.pairs.relations import different_class, positive


class SINCERE(SupervisedContrastiveLoss):
    """SupCon whose positives do not repel one another (Feeney & Hughes 2023).

        L_i = mean_p -log( e^{s_p} / (e^{s_p} + Σ_{j: y_j≠y_i} e^{s_j}) ) = mean_p softplus(log Σ_j e^{s_j} - s_p)

    In SupCon the other positives stand in each positive's denominator. Here only other classes do. It is ε-SupInfoNCE
    with ε = 0, which two groups found independently. An anchor without positives contributes 0.

    Push: 1.

    Args:
        temperature: t > 0 (0.07 in the released code).

    Shapes: z (B, V, D), label (B,) → scalar.

    Raises:
        ConfigError: an argument out of range.

    The formula is that of the authors' code (tufts-ml/SupContrast); the paper itself was not read. There an anchor
    without positives makes the loss NaN.

    >>> import torch
    >>> from contrastive import SINCERE
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> SINCERE()(z0, z1, torch.tensor([0, 1, 1]))
    tensor(0.8851)
    """

    def per_anchor(self, pairs: Pairs) -> Tensor:
        value = pairs.mean_softplus(positive, pairs.log_sum_exp(different_class))
        return torch.where(pairs.count(positive) > 0, value, 0)
