"""Group DRO: cross-entropy with a weight for each group, which grows where the loss is large.

Groups of class and bias are weighted by their loss, the worst most. The weights follow the training.

:title: Group DRO
:data: labels and bias labels
:when: The accuracy of the worst group is what counts.
:memory: B
:checked: authors
:cite: sagawa2020groupdro
:related: bias_balanced, cross_entropy
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import ConfigError, check_at_least
from contrastive.loss.base import SampleLoss
from contrastive.types import Split


class GroupDRO(SampleLoss):
    """Σ_g q_g ℓ_g over groups g = (class, bias), ℓ_g the mean cross-entropy of the batch's samples of g, 0 without one.

        q_g ← q_g e^{step_size (ℓ_g + adjustment / sqrt(n_g))} / Σ_g

    before it weights the batch (Sagawa et al. 2020, algorithm 1). n_g counts the training images. A group without any
    has q_g = 0. The weights start equal and are kept from step to step.

    Args:
        step_size: >= 0; 0 is the mean over groups.
        adjustment: C >= 0, which increases the loss of small groups (their §3.3).

    Shapes: logits (B, V, C), label (B,), bias (B,) → scalar.

    Raises:
        ConfigError: an argument out of range.

    The authors draw every group equally often: `sampler=group_balanced`. With an adjustment the value of their code is
    larger by Σ_g q_g C / sqrt(n_g), with the same gradient.

    >>> import torch
    >>> from contrastive import GroupDRO, Split
    >>> z0, z1 = torch.arange(18.0).view(2, 3, 3).cos()  # logits (B, C) of two views of three images
    >>> label, bias = torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1])
    >>> loss = GroupDRO(step_size=0.1)
    >>> loss.prepare(Split(torch.zeros(3, 3, 1, 1, dtype=torch.uint8), label, bias), n_classes=3, dim=3)
    >>> loss(z0, z1, label, bias)
    tensor(1.1468)
    """

    input = "logits"
    needs_label = True
    needs_bias = True
    exempt_from = {
        "scale": "logits are not normalized",
        "gradient": "the weights are held constant",
        "descent": "the weights follow the loss",
    }

    def __init__(self, *, step_size: float = 0.01, adjustment: float = 0.0) -> None:
        super().__init__()
        check_at_least("step_size", step_size, 0, example=0.01)
        check_at_least("adjustment", adjustment, 0, example=0.0)
        self.step_size, self.adjustment = step_size, adjustment
        self.log_weight: Tensor | None
        self.register_buffer("log_weight", None)  # (groups,) log q
        self.register_buffer("bonus", None)  # (groups,) adjustment / sqrt(n_g)
        self.seen: Tensor | None = None  # log q of this step

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        assert train.bias is not None
        self.n_biases = int(train.bias.max()) + 1
        count = torch.bincount(self.group(train.label, train.bias), minlength=n_classes * self.n_biases)
        self.log_weight = (count > 0).float().log().log_softmax(0)
        self.bonus = self.adjustment / count.clamp(min=1).float().sqrt()

    def group(self, label: Tensor, bias: Tensor) -> Tensor:
        """(S,) the number of each sample's group."""
        return label * self.n_biases + bias

    def per_batch(self, x: Tensor, label: Tensor, bias: Tensor) -> Tensor:
        if self.log_weight is None:
            raise ConfigError("GroupDRO counts the groups of the training data: try loss.prepare(train, ...) first")
        groups = torch.arange(len(self.log_weight), device=x.device)
        member = (self.group(label, bias) == groups[:, None]).to(x.dtype)  # (groups, S)
        cost = member @ F.cross_entropy(x, label, reduction="none") / member.sum(1).clamp(min=1)
        self.seen = (self.log_weight + self.step_size * (cost.detach() + self.bonus)).log_softmax(0)
        return self.seen.exp().to(x.dtype) @ cost

    def after_step(self, gather: Callable[[Tensor], Tensor]) -> None:
        if self.log_weight is not None and self.seen is not None:
            self.log_weight.copy_(self.seen)  # in its place: a captured step knows its tensors by their address
        self.seen = None

    def diagnostics(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        """{groups/largest_weight: max q}."""
        return {} if self.log_weight is None else {"groups/largest_weight": self.log_weight.exp().max()}
