"""Cross-entropy of the linear classifier that is trained along."""

import torch.nn.functional as F
from torch import Tensor

from contrastive.term import Term


class CrossEntropy(Term):
    """Softmax cross-entropy of the logits (B, V, C), mean over images and views: the supervised baseline."""

    reads = "logits"
    needs_label = True
    not_invariant_to = {"scale": "logits are not normalised"}

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
        assert label is not None
        return F.cross_entropy(z.flatten(0, 1), label.repeat_interleave(z.shape[1]))
