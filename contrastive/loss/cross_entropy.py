"""Cross-entropy of the linear classifier that is trained along."""

import torch.nn.functional as F
from torch import Tensor

from contrastive.loss.base import Loss


class CrossEntropy(Loss):
    """Softmax cross-entropy of the logits (B, V, C), mean over images and views: the supervised baseline."""

    input = "logits"
    needs_label = True
    exempt_from = {"scale": "logits are not normalized"}

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
        assert label is not None
        return F.cross_entropy(z.flatten(0, 1), label.repeat_interleave(z.shape[1]))
