"""Large-margin softmax, the column that Khosla et al. 2020 call Max-Margin."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive.errors import ConfigError
from contrastive.loss.base import Loss
from contrastive.types import Split


class LargeMarginSoftmax(Loss):
    """Cross-entropy whose target angle counts m times (Liu et al. 2016, eqs. 5 and 6).

        target logit |W_y| |x| ψ(θ_y),  ψ(θ) = (-1)^k cos(m θ) - 2k  on [kπ/m, (k+1)π/m]

    with a classifier W of its own without bias, on the features. m = 1 is plain softmax. No annealing.

    Args:
        m: a whole number of at least 1 (4 in the paper).

    Raises:
        ConfigError: m out of range.
    """

    input = "features"
    needs_label = True
    exempt_from = {"scale": "the norm of the features counts"}

    def __init__(self, *, m: int) -> None:
        super().__init__()
        if not isinstance(m, int) or not m >= 1:
            raise ConfigError(f"m must be a whole number of at least 1, got {m}: try loss.m=4")
        self.m = m
        self.weight: nn.Parameter | None = None  # (C, F), made by prepare

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        self.set_weight(nn.init.kaiming_uniform_(torch.empty(n_classes, dim), a=math.sqrt(5)))

    def set_weight(self, weight: Tensor) -> None:
        """The classifier (C, F)."""
        self.weight = nn.Parameter(weight)

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
        assert label is not None and self.weight is not None
        x, target = z.flatten(0, 1), label.repeat_interleave(z.shape[1])
        weight = self.weight.to(x.dtype)
        logits = x @ weight.T
        scale = x.norm(dim=1) * weight[target].norm(dim=1)
        own = logits.gather(1, target[:, None]).squeeze(1)
        cosine = (own / scale.clamp(min=1e-12)).clamp(-1 + 1e-7, 1 - 1e-7)
        theta = cosine.acos()
        k = (self.m * theta.detach() / math.pi).floor()
        psi = torch.where(k % 2 == 0, 1.0, -1.0) * (self.m * theta).cos() - 2 * k
        value = own if self.m == 1 else scale * psi
        return F.cross_entropy(logits.scatter(1, target[:, None], value[:, None]), target)
