"""GloFND: negatives above a similarity that is learned for each training image are treated as false.

Each image learns a threshold of similarity above which a negative is taken for false. Such negatives leave the loss.

:title: Global false negative discovery
:data: pairs
:when: As `fnc`, on data that are seen for many epochs.
:memory: B + 4 N
:checked: authors
:cite: balmaseda2025glofnd
:related: fnc, sogclr, debiased_neg
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from contrastive.errors import check_at_least, check_between
from contrastive.loss._per_image import PerImageLoss, write
from contrastive.pairs.pairs import Pairs
from contrastive.types import Split

BETA1, BETA2, EPS = 0.9, 0.98, 1e-8  # of Adam, as in the released code


class GloFND(PerImageLoss):
    """NT-Xent without the negatives that are more similar than a threshold (Balmaseda et al. 2025, on SimCLR).

        L_i = softplus(log N + log mean_{j: cos_ij <= λ_i} e^{s_j} - s+)

    over the N = 2B - 2 views j of other images. An anchor without any left contributes 0. λ_i is the similarity that a
    share alpha of all negatives of image i exceed. Each time the image is seen, Adam updates it with the gradient

        alpha - (share of the batch's negatives, of both views, with cos_ij > λ_i)

    and it is used at once. It starts at 1, which excludes nothing. For images without an `index` the loss is NT-Xent.
    Two sources need two thresholds for an image: use one GloFND for each direction, with `across="first"`.

    Push: 1; an anchor without any negative left is neither pushed nor pulled.

    Args:
        temperature: t > 0.
        alpha: in (0, 1), the share of negatives that are treated as false; with k equal classes 1/k are.
        start: how often an image is seen before its threshold is learned; these are epochs for `sampler=uniform`.
        lr: step size of the thresholds, in cosine.

    Shapes: z (B, V, D) → scalar.

    Raises:
        ConfigError: an argument out of range.

    The released code (vibalcam/GloFND) corrects Adam's means by the number of the epoch, this one by the number of
    updates of the image. There the epoch from which thresholds are learned and the one from which they are used are two
    settings (0 and 20), here both are `start`. Its command for ImageNet-100 has alpha 0.01 and 70 for both, of 200.

    >>> import torch
    >>> from contrastive import GloFND
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> GloFND()(z0, z1)
    tensor(0.3775)
    """

    def __init__(self, *, temperature: float = 0.5, alpha: float = 0.01, start: int = 20, lr: float = 0.05) -> None:
        super().__init__(temperature=temperature)
        check_between("alpha", alpha, 0, 1, exclude=(0, 1), example=0.01)
        check_at_least("start", start, 0, example=20)
        check_between("lr", lr, 0, 1, exclude=(0,), example=0.05)
        self.alpha, self.start, self.lr = alpha, start, lr
        self.state: Tensor | None
        self.register_buffer("state", None)  # (N, 4): λ, Adam's two means and how often the image was seen

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        self.state = torch.tensor([1.0, 0, 0, 0]).repeat(len(train), 1)

    def log_negative_mass(self, pairs: Pairs) -> Tensor:
        if self.index is None or self.state is None:
            return pairs.log_sum_exp(self.negative_relation)
        state = self.updated(self.state[self.index[pairs.places[:: pairs.anchor_views]]], pairs)
        self.seen.append(state)  # (B, 4), for each pair of views
        limit = state[:, 0].repeat_interleave(pairs.anchor_views) / self.temperature
        return math.log(pairs.n_negatives) + pairs.repel(pairs.log_mean_exp_up_to(self.negative_relation, limit))

    def updated(self, state: Tensor, pairs: Pairs) -> Tensor:
        """(B, 4) of the anchors' images → the same after a step of Adam, for those that have been seen often enough."""
        threshold, mean, square, seen = state.unbind(1)
        limit = threshold.repeat_interleave(pairs.anchor_views) / self.temperature
        above = pairs.fraction_above(self.negative_relation, limit).unflatten(0, (-1, pairs.anchor_views)).mean(1)
        gradient = self.alpha - above
        mean = BETA1 * mean + (1 - BETA1) * gradient
        square = BETA2 * square + (1 - BETA2) * gradient.square()
        n = (seen - self.start + 1).clamp(min=1)
        step = mean / (1 - BETA1**n) / ((square / (1 - BETA2**n)).sqrt() + EPS)
        moved = torch.stack([(threshold - self.lr * step).clamp(-1, 1), mean, square, seen + 1], 1)
        waited = torch.stack([*state[:, :3].unbind(1), seen + 1], 1)
        return torch.where((seen >= self.start)[:, None], moved, waited)

    def after_step(self, gather: Callable[[Tensor], Tensor]) -> None:
        if self.index is not None and self.state is not None and self.seen:
            write(self.state, self.index, gather(torch.stack(self.seen).mean(0)))
        self.seen = []
