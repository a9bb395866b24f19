"""Learning not to learn: an adversary predicts the bias, the encoder removes it from the features."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive.errors import ConfigError
from contrastive.loss.base import SampleLoss
from contrastive.types import Split

REVERSAL = 0.1  # the authors' factor on the reversed gradient


class _Reverse(torch.autograd.Function):
    """The identity, whose gradient is multiplied by -REVERSAL."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return -REVERSAL * gradient


def negative_entropy(logits: Tensor) -> Tensor:
    """mean_i Σ_c q_c log q_c of logits (S, C): at least -log C."""
    log_q = logits.log_softmax(1)
    return (log_q.exp() * log_q).sum(1).mean()


class LNL(SampleLoss):
    """weight · Σ q log q + cross-entropy of a bias classifier behind a reversed gradient (Kim et al. 2019, eqs. 4-6).

    q is the classifier's prediction of the bias from the features. The encoder is trained to make q uniform and,
    through the reversed gradient (times 0.1), to make the classifier wrong; only the cross-entropy trains the
    classifier, which `prepare` creates. The authors take the two parts in two steps on a batch; here they are one step.

    Args:
        weight: of the entropy, at least 0 (0.01 in the paper, 1 in Hong & Yang 2021).

    Shapes: features (B, V, F), bias (B,) → scalar.

    Raises:
        ConfigError: a negative weight, or no classifier yet.
    """

    input = "features"
    needs_bias = True
    exempt_from = {
        "scale": "the adversary reads plain features",
        "gradient": "it is reversed on purpose",
        "descent": "the adversary's loss is to rise",
    }

    def __init__(self, *, weight: float = 1.0) -> None:
        super().__init__()
        if not weight >= 0:
            raise ConfigError(f"weight must be at least 0, got {weight}: try regularizer.weight=1.0")
        self.weight = weight
        self.adversary: nn.Linear | None = None

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        assert train.bias is not None
        self.adversary = nn.Linear(dim, int(train.bias.max()) + 1)
        nn.init.uniform_(self.adversary.bias, -1 / math.sqrt(dim), 1 / math.sqrt(dim))

    def per_batch(self, x: Tensor, label: Tensor, bias: Tensor) -> Tensor:
        if self.adversary is None:
            raise ConfigError("LNL has no bias classifier yet: try loss.prepare(train, n_classes=10, dim=x.shape[-1])")
        weight, offset = self.adversary.weight.to(x.dtype), self.adversary.bias.to(x.dtype)
        entropy = negative_entropy(F.linear(x, weight.detach(), offset.detach()))
        return self.weight * entropy + F.cross_entropy(F.linear(_Reverse.apply(x), weight, offset), bias)
