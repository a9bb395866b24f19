"""Just Train Twice: cross-entropy in which the mistakes of an earlier run weigh more.

It is a cross-entropy. The images that an earlier, short run gets wrong weigh more.

:title: Just Train Twice (JTT)
:data: bias unknown
:when: The bias is unknown, and the worst group of a classifier is what counts; train a short run first and name it by
    `bias_from=RUN`.
:memory: B + N
:checked: formula
:cite: liu2021jtt
:related: softcon, group_dro, gce
"""

import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import ConfigError, check_at_least
from contrastive.loss.base import SampleLoss
from contrastive.types import Split


class JTT(SampleLoss):
    """(up Σ_{i∈E} ℓ_i + Σ_{i∉E} ℓ_i) / (up |E| + N - |E|), with ℓ_i the cross-entropy (Liu et al. 2021, algorithm 1).

    E are the training images that an earlier, short run gets wrong, from `bias_from=RUN`. A batch has the mean of
    w_i ℓ_i, w_i being the image's weight divided by the mean weight of the training images. An image without an `index`
    has weight 1.

    Args:
        up: λ_up >= 1 (20, 50 or 100 in the paper); 1 is the cross-entropy.

    Shapes: logits (B, V, C), label (B,) → scalar.

    Raises:
        ConfigError: an argument out of range, or training data without mistakes of an earlier run.

    The authors repeat the images of E in an epoch instead, `up_weight` times beside the image itself: 20 there is
    up=21. Their E are mistakes of the network on images that it was trained on; those of `bias_from` are of a linear
    probe that was fitted on other images.

    >>> import torch
    >>> from contrastive import JTT, Split
    >>> z0, z1 = torch.arange(18.0).view(2, 3, 3).cos()  # logits (B, C) of two views of three images
    >>> label, wrong = torch.tensor([0, 1, 1]), torch.tensor([False, False, True])
    >>> loss = JTT(up=2)
    >>> loss.prepare(Split(torch.zeros(3, 3, 1, 1, dtype=torch.uint8), label, mistaken=wrong), n_classes=3, dim=3)
    >>> loss(z0, z1, label, index=torch.arange(3))
    tensor(1.1603)
    """

    input = "logits"
    needs_label = True
    reads_index = True
    exempt_from = {"scale": "logits are not normalized"}

    def __init__(self, *, up: float = 20.0) -> None:
        super().__init__()
        check_at_least("up", up, 1, example=20)
        self.up = up
        self.weight: Tensor | None
        self.register_buffer("weight", None, persistent=False)  # (N,), made again from the run that it came from

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        if train.mistaken is None:
            raise ConfigError("JTT needs the mistakes of an earlier run: try bias_from=RUN")
        if not train.mistaken.any():
            raise ConfigError("the run of bias_from has no image wrong: try one of fewer epochs, or loss=cross_entropy")
        weight = 1 + (self.up - 1) * train.mistaken.float()
        self.weight = weight / weight.mean()

    def per_batch(self, x: Tensor, label: Tensor, bias: Tensor) -> Tensor:
        cost = F.cross_entropy(x, label, reduction="none")
        if self.weight is not None and self.index is not None:
            cost = cost * self.weight[self.index].repeat_interleave(len(cost) // len(self.index))
        return cost.mean()
