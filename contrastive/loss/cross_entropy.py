"""Cross-entropy of a jointly trained linear classifier."""

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
    """

    input = "logits"
    needs_label = True
    exempt_from = {"scale": "logits are not normalized"}

    def __init__(self, *, normalize: bool = False) -> None:
        super().__init__()
        self.unit_features = normalize

    def per_batch(self, x: Tensor, label: Tensor, bias: Tensor) -> Tensor:
        return F.cross_entropy(x, label)
