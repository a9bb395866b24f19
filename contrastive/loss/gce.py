"""Generalized cross-entropy, which weights samples by the classifier's confidence.

Images of which the classifier is sure weigh more. A model trained so leans on whatever is easy.

:title: Generalized cross-entropy
:data: bias unknown, labels
:when: To make the biased model that `bias_from=RUN` reads, or with noisy labels.
:memory: B
:checked: formula
:cite: zhang2018gce, nam2020lff
:related: cross_entropy, softcon, rince
"""

import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import check_between
from contrastive.loss.base import SampleLoss


class GCE(SampleLoss):
    """Cross-entropy weighted by q p_y^q, the weight held constant (Zhang & Sabuncu 2018, as used by Nam et al. 2020).

    Its gradient is that of (1 - p_y^q) / q, times q.

    Args:
        q: in (0, 1] (0.7 in the paper).

    Shapes: logits (B, V, C), label (B,) → scalar.

    Raises:
        ConfigError: q out of range.

    >>> import torch
    >>> from contrastive import GCE
    >>> z0, z1 = torch.arange(18.0).view(2, 3, 3).cos()  # logits (B, C) of two views of three images
    >>> GCE()(z0, z1, torch.tensor([0, 1, 1]))
    tensor(0.3437)
    """

    input = "logits"
    needs_label = True
    exempt_from = {
        "scale": "logits are not normalized",
        "gradient": "the weight is held constant",
        "descent": "its gradient is that of another function, see above",
    }

    def __init__(self, *, q: float = 0.7) -> None:
        super().__init__()
        check_between("q", q, 0, 1, exclude=(0,), example=0.7)
        self.q = q

    def per_batch(self, x: Tensor, label: Tensor, bias: Tensor) -> Tensor:
        cost = F.cross_entropy(x, label, reduction="none")
        return (cost * self.q * (-self.q * cost.detach()).exp()).mean()
