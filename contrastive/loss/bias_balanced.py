"""Bias-balanced cross-entropy (BB).

The frequency of each class under a bias is added to the logits. The classifier then need not learn it.

:title: Bias-balanced cross-entropy (BB)
:data: labels and bias labels
:when: Bias labels are known and a classifier is what you want.
:memory: B
:checked: authors
:cite: hong2021unbiased
:related: bias_contrastive, group_dro, cross_entropy
"""

import torch.nn.functional as F
from torch import Tensor

from contrastive.loss.base import SampleLoss
from contrastive.types import Split, count_pairs

TINY = 1e-9


class BiasBalanced(SampleLoss):
    """Cross-entropy of logits + log(p(y|b) + 1e-9) (Hong & Yang 2021, eq. 8), which removes the prior of each bias.

    p(y|b) are frequencies in the training data, counted by `prepare`; before that the prior is uniform, which is plain
    cross-entropy. At test time the plain logits are used.

    Shapes: logits (B, V, C), label (B,), bias (B,) → scalar.

    >>> import torch
    >>> from contrastive import BiasBalanced
    >>> z0, z1 = torch.arange(18.0).view(2, 3, 3).cos()  # logits (B, C) of two views of three images
    >>> label, bias = torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1])
    >>> BiasBalanced()(z0, z1, label, bias)
    tensor(1.1465)
    """

    input = "logits"
    needs_label = True
    needs_bias = True
    exempt_from = {"scale": "logits are not normalized"}

    def __init__(self) -> None:
        super().__init__()
        self.log_prior: Tensor | None
        self.register_buffer("log_prior", None)  # (biases, C); None = uniform

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        assert train.bias is not None
        count = count_pairs(train.bias, train.label, int(train.bias.max()) + 1, n_classes).float()
        self.set_prior(count / count.sum(1, keepdim=True).clamp(min=1))

    def set_prior(self, prior: Tensor) -> None:
        """Set p(y|b), (biases, C), rows summing to 1."""
        self.log_prior = (prior + TINY).log()

    def per_batch(self, x: Tensor, label: Tensor, bias: Tensor) -> Tensor:
        if self.log_prior is not None:
            x = x + self.log_prior[bias].to(x.dtype)
        return F.cross_entropy(x, label)
