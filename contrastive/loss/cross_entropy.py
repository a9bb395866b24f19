"""Cross-entropy of a jointly trained linear classifier.

A linear classifier is trained with the encoder. It is the supervised baseline.

:title: Cross-entropy
:data: labels
:when: Always beside a supervised loss, and first where a bias is suspected.
:memory: B
:checked: formula
:related: supcon, gce, large_margin_softmax, bias_balanced
"""

import torch.nn.functional as F
from torch import Tensor

from contrastive.loss.base import SampleLoss


class CrossEntropy(SampleLoss):
    """Softmax cross-entropy, mean over images and views: the supervised baseline.

    Args:
        normalize: whether the classifier reads features scaled to length 1 (the EnD of Hong & Yang 2021).

    Shapes: logits (B, V, C), label (B,) → scalar.

    Raises:
        ConfigError: normalize is not a boolean.

    >>> import torch
    >>> from contrastive import CrossEntropy
    >>> z0, z1 = torch.arange(18.0).view(2, 3, 3).cos()  # logits (B, C) of two views of three images
    >>> CrossEntropy()(z0, z1, torch.tensor([0, 1, 1]))
    tensor(1.1465)
    """

    input = "logits"
    needs_label = True
    exempt_from = {"scale": "logits are not normalized"}

    def __init__(self, *, normalize: bool = False) -> None:
        super().__init__()
        self.unit_features = normalize

    def per_batch(self, x: Tensor, label: Tensor, bias: Tensor) -> Tensor:
        return F.cross_entropy(x, label)
