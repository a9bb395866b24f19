"""Bias-balanced cross-entropy (BB)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.loss.base import Loss
from contrastive.types import Split

TINY = 1e-9


class BiasBalanced(Loss):
    """Cross-entropy of logits + log(p(y|b) + 1e-9) (Hong & Yang 2021, eq. 8): the prior of each bias is taken out.

    p(y|b) are the training counts by bias; at test time the plain logits are used. Until `prepare` has counted, the
    prior is uniform, which is cross-entropy.
    """

    input = "logits"
    needs_label = True
    needs_bias = True
    exempt_from = {"scale": "logits are not normalized"}

    def __init__(self) -> None:
        super().__init__()
        self.log_prior: Tensor | None
        self.register_buffer("log_prior", None)  # (biases, C)

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        assert train.bias is not None
        count = torch.zeros(int(train.bias.max()) + 1, n_classes, device=train.label.device)
        count.index_put_((train.bias, train.label), torch.ones((), device=count.device), accumulate=True)
        self.set_prior(count / count.sum(1, keepdim=True).clamp(min=1))

    def set_prior(self, prior: Tensor) -> None:
        """p(y|b), (biases, C), rows summing to 1."""
        self.log_prior = (prior + TINY).log()

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
        assert label is not None and bias is not None
        if self.log_prior is not None:
            z = z + self.log_prior[bias][:, None].to(z.dtype)
        return F.cross_entropy(z.flatten(0, 1), label.repeat_interleave(z.shape[1]))
