"""The mathematics every contrastive loss shares: reductions over the pairs (anchor, other), in log space.

A loss sees `Pairs`, never the A × A matrix: it asks for log-sum-exps over a *relation* (which others count for an
anchor), for the logits of an anchor's own other views, and for means over positives. Small batches hold the matrix;
above `DENSE` pairs it is computed piece by piece, forward and backward, and memory grows with A alone.

Notation (as in the papers): s = z_i·z_j / t for unit vectors z and temperature t; A anchors; N negatives.
"""

import math
from collections.abc import Callable
from functools import cached_property, partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from contrastive.errors import ConfigError
from contrastive.pairs import tiles
from contrastive.pairs.relations import Identity, Relation

DENSE = 2048 * 2048  # pairs whose logits are held at once: 16 MiB in float32
DENSE_ON_GPU = 4096 * 4096
ROWS = 2**22  # pairs of a piece


class Pairs:
    """All pairs (anchor, other) of one batch.

    Args:
        z: (B, V, D) embeddings, normalized here; half precision is widened to float32, float64 is kept.
        temperature: t > 0.
        label, bias: (B,) int64 or None.
        anchor_views: the first so many views are anchors and others; the remaining ones are only `positives`.
        images: whose views are anchors, all by default; every image of the batch is among the others in any case.
    """

    def __init__(
        self,
        z: Tensor,
        *,
        temperature: float,
        anchor_views: int,
        label: Tensor | None = None,
        bias: Tensor | None = None,
        images: slice = slice(None),
    ) -> None:
        wide = z.dtype if z.dtype == torch.float64 else torch.float32
        z = F.normalize(z.to(wide), dim=-1)
        self.temperature = temperature
        self.anchor_views = anchor_views
        self.n_images, self.n_views, _ = z.shape
        self.z = z[images]
        self.others = z[:, :anchor_views].flatten(0, 1)  # (A, D), the views of an image side by side
        image = torch.arange(self.n_images, device=z.device)

        def spread(value: Tensor | None) -> Tensor | None:
            return None if value is None else value.repeat_interleave(anchor_views)

        self.other = Identity(
            torch.arange(len(self.others), device=z.device),
            image.repeat_interleave(anchor_views),
            spread(label),
            spread(bias),
        )
        first, last, _ = images.indices(self.n_images)
        rows = slice(first * anchor_views, last * anchor_views)
        whole = len(self.z) == self.n_images
        self.anchors = self.others if whole else self.others[rows]
        self.anchor = self.other.part(rows)
        self.dense = len(self.anchors) * len(self.others) <= (DENSE_ON_GPU if z.is_cuda else DENSE)

    @cached_property
    def logits(self) -> Tensor:
        """(A, A): s of every ordered pair, the anchor itself included; only for batches small enough to hold it."""
        return self.anchors @ self.others.T / self.temperature

    @cached_property
    def positives(self) -> Tensor:
        """(A, M): s between an anchor and every other view of its own image, its mate first."""
        own = self.z[:, : self.anchor_views] @ self.z.mT / self.temperature  # (B, anchor_views, V)
        rows = [
            torch.stack([own[:, a, v] for v in range(self.n_views) if v != a], -1) for a in range(self.anchor_views)
        ]
        return torch.stack(rows, 1).flatten(0, 1)

    def related(self, relation: Relation, rows: slice = slice(None), columns: slice = slice(None)) -> Tensor:
        """(A, A) bool: which others stand in the relation to each anchor; or a piece of it."""
        return relation(self.anchor.part(rows).over(1), self.other.part(columns).over(0))

    def log_sum_exp(self, relation: Relation, scale: float = 1.0) -> Tensor:
        """(A,): log Σ_j e^{scale · s_ij} over the related j; -inf (with zero gradient) where there is none."""
        if not self.dense and tiles.safe(scale / self.temperature, self.others.dtype):
            others = None if self.anchors is self.others else self.others
            return tiles.log_sum_exp(self.anchors, others, partial(self.related, relation), scale / self.temperature)
        return self._reduce(relation, lambda logits, keep: masked_log_sum_exp(logits * scale, keep))

    def count(self, relation: Relation) -> Tensor:
        """(A,): how many others are related to each anchor, in the dtype of z."""
        return torch.cat([self.related(relation, rows).sum(1) for rows in self._pieces()]).to(self.others.dtype)

    def mean_logit(self, relation: Relation) -> Tensor:
        """(A,): mean of s_ij over the related j, 0 where there is none."""
        return self._reduce(relation, lambda logits, keep: (logits * keep).sum(1) / keep.sum(1).clamp(min=1))

    def mean_softplus(self, relation: Relation, log_mass: Tensor) -> Tensor:
        """(A,): mean of softplus(log_mass_i - s_ij) over the related j, 0 where there is none."""

        def reduce(logits: Tensor, keep: Tensor, log_mass: Tensor) -> Tensor:
            value = F.softplus(log_mass[:, None] - logits)
            return torch.where(keep, value, 0).sum(1) / keep.sum(1).clamp(min=1)

        return self._reduce(relation, reduce, log_mass)

    def _reduce(self, relation: Relation, reduce: Callable[..., Tensor], *per_anchor: Tensor) -> Tensor:
        """reduce(logits, related, *per_anchor) → (A,), at once or over pieces that the backward pass computes again."""
        if self.dense:
            return reduce(self.logits, self.related(relation), *per_anchor)

        def piece(rows: slice, anchors: Tensor, others: Tensor, *values: Tensor) -> Tensor:
            return reduce(anchors @ others.T / self.temperature, self.related(relation, rows), *values)

        return torch.cat(
            [
                checkpoint(
                    piece,
                    rows,
                    self.anchors[rows],
                    self.others,
                    *(v[rows] for v in per_anchor),
                    use_reentrant=False,
                    preserve_rng_state=False,
                )
                for rows in self._pieces()
            ]
        )

    def _pieces(self) -> list[slice]:
        """Slices of the anchors whose pairs are held at once."""
        if self.dense:
            return [slice(None)]
        side = max(1, ROWS // len(self.others))
        return [slice(i, i + side) for i in range(0, len(self.anchors), side)]


def masked_log_sum_exp(x: Tensor, keep: Tensor) -> Tensor:
    """logsumexp over the last dimension of the kept entries; -inf with zero gradient where none is kept."""
    x = x.masked_fill(~keep, -torch.inf)
    top = x.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(x.dtype).min)
    total = (x - top).exp().sum(-1)
    empty = total == 0
    return torch.where(empty, -torch.inf, top.squeeze(-1) + total.masked_fill(empty, 1).log())


def log_mean_exp(x: Tensor) -> Tensor:
    """log of the mean of e^x over the last dimension."""
    return x.logsumexp(-1) - math.log(x.shape[-1])


def log_sub_exp(x: Tensor, y: Tensor) -> Tensor:
    """log(e^x - e^y); -inf with zero gradient where y >= x."""
    positive = x > y
    gap = torch.where(positive, y - x, -1.0)
    return torch.where(positive, x + torch.log(-torch.expm1(gap)), -torch.inf)


def check_temperature(temperature: float) -> None:
    if not temperature > 0:
        raise ConfigError(f"temperature must be above 0, got {temperature}: try temperature=0.5")


def check_tau_plus(tau_plus: float, *, zero: bool) -> None:
    low = "[0, 1)" if zero else "(0, 1)"
    if not (tau_plus >= 0 if zero else tau_plus > 0) or not tau_plus < 1:
        raise ConfigError(
            f"tau_plus, the prior of the anchor's class, must lie in {low}, got {tau_plus}: try tau_plus=0.1"
        )
