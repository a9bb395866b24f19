"""SogCLR: the negatives of an image are those of all batches, through one running mean for each training image.

A running mean for each training image stands for the negatives of the whole data set. A small batch then gives the
gradient of a large one.

:title: Global contrastive loss (SogCLR)
:data: pairs
:when: Memory allows small batches only.
:memory: B + N
:checked: authors
:cite: yuan2022sogclr
:related: decoupled, glofnd, nt_xent
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from contrastive.errors import check_between
from contrastive.loss._per_image import PerImageLoss, write
from contrastive.pairs.pairs import Pairs, log_mean_exp
from contrastive.types import Split


class SogCLR(PerImageLoss):
    """NT-Xent against the negatives of the whole data, from small batches (Yuan et al. 2022, algorithm 1).

        L_i = log u_i - s+,   u_i = (1 - gamma) u_i + gamma / N Σ_j e^{s_j}

    over the N = 2B - 2 views j of other images. u_i is kept for each training image, in float32, as the mean over its
    two views. For an image not seen before it is the mean of the batch. The gradient is that of g_i / u_i - s+ with u_i
    held constant and g_i the mean of the batch: an image is pushed less if its negatives used to be harder. With
    gamma = 1, and for images without an `index`, it is the decoupled loss minus log N. Two sources need two means for
    an image: use one SogCLR for each direction, with `across="first"`.

    Push: g_i / u_i; 1 where u_i is the mean of the batch itself.

    Args:
        temperature: t > 0.
        gamma: in (0, 1], the weight of the batch in the running mean (0.9 in the released code).

    Shapes: z (B, V, D) → scalar.

    Raises:
        ConfigError: an argument out of range.

    The released code (Optimization-AI/SogCLR) multiplies by t and adds its two views, so its gradient is 2t times
    this one. It treats images as new only if all images of the batch are.

    >>> import torch
    >>> from contrastive import SogCLR
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> SogCLR()(z0, z1)
    tensor(-2.2572)
    """

    def __init__(self, *, temperature: float = 0.5, gamma: float = 0.9) -> None:
        super().__init__(temperature=temperature)
        check_between("gamma", gamma, 0, 1, exclude=(0,), example=0.9)
        self.gamma = gamma
        self.log_mean: Tensor | None
        self.register_buffer("log_mean", None)  # (N,) log u of each training image; -inf = not seen

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        self.log_mean = torch.full((len(train),), -torch.inf)

    def per_anchor(self, pairs: Pairs) -> Tensor:
        log_batch = pairs.log_sum_exp(self.negative_relation) - math.log(pairs.n_negatives)
        log_mean = self.running_mean(log_batch.detach(), pairs)
        if pairs.has_equal_ids:  # an anchor whose id all images have is pushed from nothing
            has_negatives = log_batch > -math.inf
            log_batch, log_mean = (torch.where(has_negatives, x, 0) for x in (log_batch, log_mean))
        weight = (log_batch - log_mean).exp()
        return log_mean + weight - weight.detach() - pairs.positive_logits[:, 0]

    def running_mean(self, log_batch: Tensor, pairs: Pairs) -> Tensor:
        """(A,): log u of the anchors, this batch included."""
        if self.index is None or self.log_mean is None:
            return log_batch
        before = self.log_mean[self.index[pairs.places]].to(log_batch.dtype)
        kept = -math.inf if self.gamma == 1 else math.log1p(-self.gamma)
        mean = torch.logaddexp(before + kept, log_batch + math.log(self.gamma))
        mean = torch.where(before.isinf(), log_batch, mean)
        self.seen.append(mean.unflatten(0, (-1, pairs.anchor_views)))  # (B, 2) or (B, 1) of each `Pairs`
        return mean

    def after_step(self, gather: Callable[[Tensor], Tensor]) -> None:
        if self.index is not None and self.log_mean is not None and self.seen:
            write(self.log_mean, self.index, gather(log_mean_exp(torch.cat(self.seen, 1))))
        self.seen = []
