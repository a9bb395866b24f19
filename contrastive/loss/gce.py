"""Generalized cross-entropy, which trusts what it already knows."""

import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.loss.base import Loss


class GCE(Loss):
    """Cross-entropy weighted by q p_y^q, the weight held constant (Zhang & Sabuncu 2018, as used by Nam et al. 2020).

    Its gradient is that of (1 - p_y^q) / q, times q.

    Args:
        q: in (0, 1] (0.7 in the paper).

    Raises:
        ConfigError: q out of range.
    """

    input = "logits"
    needs_label = True
    exempt_from = {
        "scale": "logits are not normalized",
        "gradient": "the weight is held constant",
        "descent": "its gradient is that of another function, see above",
    }

    def __init__(self, *, q: float) -> None:
        super().__init__()
        if not 0 < q <= 1:
            raise ConfigError(f"q must lie in (0, 1], got {q}: try loss.q=0.7")
        self.q = q

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
        assert label is not None
        cost = F.cross_entropy(z.flatten(0, 1), label.repeat_interleave(z.shape[1]), reduction="none")
        return (cost * self.q * (-self.q * cost.detach()).exp()).mean()
