"""Cross-entropy of a jointly trained linear classifier."""

import torch.nn.functional as F
from torch import Tensor

from contrastive.loss.base import SampleLoss


class CrossEntropy(SampleLoss):
    """Softmax cross-entropy, mean over images and views: the supervised baseline.

    Shapes: logits (B, V, C), label (B,) → scalar.
    """

    input = "logits"
    needs_label = True
    exempt_from = {"scale": "logits are not normalized"}

    def per_batch(self, x: Tensor, label: Tensor, bias: Tensor) -> Tensor:
        return F.cross_entropy(x, label)
