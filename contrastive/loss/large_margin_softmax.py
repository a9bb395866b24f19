"""Large-margin softmax, which Khosla et al. 2020 tabulate as Max-Margin.

The angle to the right class is multiplied by m before it is compared. Classes must therefore lie further apart.

:title: Large-margin softmax
:data: labels
:when: A published baseline of supervised margins.
:memory: B
:checked: formula
:cite: liu2016lsoftmax
:related: cross_entropy, eps_supcon
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive.errors import ConfigError, check_at_least
from contrastive.loss.base import SampleLoss
from contrastive.types import Split


class LargeMarginSoftmax(SampleLoss):
    """Cross-entropy whose target angle is multiplied by m (Liu et al. 2016, eqs. 5 and 6).

        target logit |W_y| |x| ψ(θ_y),  ψ(θ) = (-1)^k cos(m θ) - 2k  on [kπ/m, (k+1)π/m]

    with its own classifier W without bias on the features, created by `prepare`. m = 1 is plain softmax. No annealing.

    Args:
        m: a whole number of at least 1 (4 in the paper).

    Shapes: features (B, V, F), label (B,) → scalar.

    Raises:
        ConfigError: m out of range, or no classifier yet.

    >>> import torch
    >>> from contrastive import LargeMarginSoftmax
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # features (B, F) of two views of three images
    >>> loss = LargeMarginSoftmax(m=2)
    >>> loss.set_weight(torch.eye(4)[:2])  # of a classifier (C, F)
    >>> loss(z0, z1, torch.tensor([0, 1, 1])).detach()
    tensor(1.6292)
    """

    input = "features"
    needs_label = True
    exempt_from = {"scale": "the norm of the features counts"}

    def __init__(self, *, m: int = 4) -> None:
        super().__init__()
        check_at_least("m", m, 1, example=4)
        self.m = m
        self.weight: nn.Parameter | None = None  # (C, F)

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        self.set_weight(nn.init.kaiming_uniform_(torch.empty(n_classes, dim), a=math.sqrt(5)))

    def set_weight(self, weight: Tensor) -> None:
        """Set the classifier (C, F)."""
        self.weight = nn.Parameter(weight)

    def per_batch(self, x: Tensor, label: Tensor, bias: Tensor) -> Tensor:
        if self.weight is None:
            raise ConfigError("LargeMarginSoftmax has no classifier yet: try loss.set_weight(torch.randn(C, F))")
        weight = self.weight.to(x.dtype)
        logits = x @ weight.T
        scale = x.norm(dim=1) * weight[label].norm(dim=1)
        target_logit = logits.gather(1, label[:, None]).squeeze(1)
        if self.m > 1:
            cosine = (target_logit / scale.clamp(min=1e-12)).clamp(-1 + 1e-7, 1 - 1e-7)
            theta = cosine.acos()
            k = (self.m * theta.detach() / math.pi).floor()
            psi = torch.where(k % 2 == 0, 1.0, -1.0) * (self.m * theta).cos() - 2 * k
            target_logit = scale * psi
        return F.cross_entropy(logits.scatter(1, label[:, None], target_logit[:, None]), label)
