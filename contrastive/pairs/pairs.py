"""Reductions over pairs (anchor, candidate) in log space, shared by all contrastive losses.

A loss works on `Pairs`, never on the A × A matrix: it asks for log-sum-exps over a *relation* (which candidates count
for an anchor), for the logits of an anchor's other views, and for means over positives. Small batches hold the matrix;
above `Tiling.max_dense_pairs` pairs it is computed piece by piece, forward and backward, and memory grows with A alone.
There are two piecewise implementations: `tiles` is the fast one for log-sum-exp, which dominates the cost, and
`_reduce` checkpoints rows for every other reduction and for temperatures so low that tiles would underflow.

Notation (as in the papers): s = z_i·z_j / t for unit vectors z and temperature t; A anchors; K candidates, the anchor
itself among them unless they are from another source; N negatives.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from contrastive.gathering import once
from contrastive.pairs import tiles
from contrastive.pairs.others import Others
from contrastive.pairs.relations import Relation, SampleId, other_image
from contrastive.pairs.tiles import Tiling, default_tiling
from contrastive.types import unit, widen

ALONE = Others()


class Pairs:
    """All pairs (anchor, candidate) of one batch.

    Args:
        z: (B, V, D) embeddings, normalized here; half precision is converted to float32, float64 is kept.
        temperature: t > 0; a tensor if it is learned.
        anchor_views: the first `anchor_views` views are anchors and candidates; further ones are only positives.
        label: (B,) int64; None = unknown, as is -1.
        bias: (B,) int64; None = unknown, as is -1.
        anchor_images: the images whose views are anchors; every image is a candidate in any case.
        tiling: how much of the A × A matrix is held at once; None = the default of the device.
        negatives: the pairs that repel an anchor.
        push: factor on the gradient that reaches those pairs through log-sum-exps; values do not change.
        others: keys (B, V', D) instead of z as candidates, all of them positives of their image; a memory; equal ids.

    Attributes:
        anchors (A, D), candidates (K, D): unit embeddings, the views of an image side by side, then the memory.
        anchor_ids, candidate_ids: their `SampleId`.
        has_self: whether an anchor is among its candidates.
        has_equal_ids: whether images may share an id, so that N is a bound and `count` tells the number of negatives.
        dense: whether the whole matrix of logits is held.
    """

    def __init__(
        self,
        z: Tensor,
        *,
        temperature: float | Tensor,
        anchor_views: int,
        label: Tensor | None = None,
        bias: Tensor | None = None,
        anchor_images: slice = slice(None),
        tiling: Tiling | None = None,
        negatives: Relation = other_image,
        push: float = 1.0,
        others: Others = ALONE,
    ) -> None:
        z = unit(widen(z))
        self.temperature = temperature
        self.negatives = negatives
        self.push = push
        self.anchor_views = anchor_views
        self.n_images, self.n_views, _ = z.shape
        self.tiling = tiling or default_tiling(z.device)
        self.z, self._anchor_images = z[anchor_images], anchor_images
        self.keys = None if others.keys is None else unit(others.keys.to(z.dtype))
        self.has_self = self.keys is None and not others.memory_only
        self.has_equal_ids = others.ids is not None
        image = torch.arange(self.n_images, device=z.device)
        unknown = torch.full_like(image, -1)
        if others.ids is not None:  # below -1 an unknown id is one of its own
            image = torch.where(others.ids < 0, -2 - image, others.ids)
        of_images = SampleId(image, image, unknown if label is None else label, unknown if bias is None else bias)
        whole = z[:, :anchor_views].flatten(0, 1)
        ids = of_images.repeat(anchor_views)
        first = (anchor_images.start or 0) % self.n_images  # slice.indices would end a compiled graph in torch 2.11
        self._places = slice(first * anchor_views, (first + len(self.z)) * anchor_views)
        is_whole = len(self.z) == self.n_images
        self.anchors = whole if is_whole else whole[self._places]
        self.anchor_ids = ids.select(self._places)
        self._whole, self.candidates, self.candidate_ids = z, whole, ids
        self.n_repelling, self.n_memory = anchor_views, 0
        if not self.has_self or others.memory is not None:
            self._take_in(others, of_images)
        self.dense = len(self.anchors) * len(self.candidates) <= self.tiling.max_dense_pairs
        # Kept once computed, not by cached_property: its lock in Python 3.11 would end a compiled graph.
        self._logits: Tensor | None = None
        self._positive_logits: Tensor | None = None

    def _take_in(self, others: Others, of_images: SampleId) -> None:
        """Give the anchors other candidates: keys, a memory behind those of the batch, or the memory alone."""
        # Rows are numbered on: anchors, then keys, then memory. Embeddings of one image share an id, so that only the
        # row tells an anchor from them.
        n_anchors, sources = len(self.candidates), [(self.candidates, self.candidate_ids)]
        if self.keys is not None:
            self.n_repelling = self.keys.shape[1]
            sources = [(self.keys.flatten(0, 1), of_images.repeat(self.n_repelling, first_row=n_anchors))]
        if others.memory_only:
            self.n_repelling, sources = 0, []
        if others.memory is not None:
            self.n_memory = len(others.memory)
            row = torch.arange(self.n_memory, device=self.z.device) + n_anchors * (1 + self.n_repelling)
            unknown = torch.full_like(row, -1)
            label, ids = others.memory_label, others.memory_ids
            known = (unknown if ids is None else ids, unknown if label is None else label, unknown)
            sources.append((unit(others.memory.to(self.z.dtype)), SampleId(row, *known)))
        self.candidates = torch.cat([candidates for candidates, _ in sources])
        self.candidate_ids = SampleId(*(torch.cat(fields) for fields in zip(*(ids for _, ids in sources), strict=True)))

    @property
    def n_negatives(self) -> int:
        """N: candidates that show another image than the anchor: 2B - 2 for two anchor views, B - 1 across sources, K
        more with a memory; those of an equal id are counted, too."""
        return self.n_repelling * (self.n_images - 1) + self.n_memory

    @property
    def places(self) -> Tensor:
        """(A,): the position in the batch of each anchor's image."""
        return torch.arange(self.n_images, device=self.z.device).repeat_interleave(self.anchor_views)[self._places]

    @property
    def has_positive_logits(self) -> bool:
        """Whether an anchor has another view or a key of its image."""
        return self.n_views > 1 or self.keys is not None

    @property
    def positive_cosines(self) -> Tensor:
        """(B,): the cosine of the first two views of every image, or of its view and its key, anchors or not."""
        other = self._whole[:, 1] if self.keys is None else self.keys[:, 0]
        return (self._whole[:, 0] * other).sum(1)

    @property
    def logits(self) -> Tensor:
        """(A, K): s of every ordered pair, self-pairs included; only for batches small enough to hold it."""
        if self._logits is None:
            self._logits = self.anchors @ self.candidates.T / self.temperature
        return self._logits

    @property
    def positive_logits(self) -> Tensor:
        """(A, M): s between an anchor and every other view of its image, the other anchor view first; with keys,
        between an anchor and every key of its image."""
        if self._positive_logits is None and self.keys is not None:
            keys = self.keys[self._anchor_images]
            self._positive_logits = (self.z[:, : self.anchor_views] @ keys.mT / self.temperature).flatten(0, 1)
        if self._positive_logits is None:
            logits = self.z[:, : self.anchor_views] @ self.z.mT / self.temperature  # (B, anchor_views, V)
            rows = [
                torch.stack([logits[:, a, v] for v in range(self.n_views) if v != a], -1)
                for a in range(self.anchor_views)
            ]
            self._positive_logits = torch.stack(rows, 1).flatten(0, 1)
        return self._positive_logits

    def related(self, relation: Relation, rows: slice | None = None, columns: slice | None = None) -> Tensor:
        """(A, K) bool: whether each pair is in the relation; `rows` and `columns` select a part."""
        # None and not slice(None), which as a default would end a compiled graph in torch 2.11
        anchors = self.anchor_ids if rows is None else self.anchor_ids.select(rows)
        candidates = self.candidate_ids if columns is None else self.candidate_ids.select(columns)
        return relation(anchors.unsqueeze(1), candidates.unsqueeze(0))

    def log_sum_exp(self, relation: Relation, scale: float = 1.0) -> Tensor:
        """(A,): log Σ_j e^{scale · s_ij} over the related j; -inf with zero gradient if no j is related."""
        if self.push == 1:
            return self._log_sum_exp(relation, scale)
        if relation is self.negatives:
            return self.repel(self._log_sum_exp(relation, scale))
        repelled = self._log_sum_exp(lambda i, j: relation(i, j) & self.negatives(i, j), scale)
        others = self._log_sum_exp(lambda i, j: relation(i, j) & ~self.negatives(i, j), scale)
        both = torch.stack([self.repel(repelled), others], -1)
        return masked_log_sum_exp(both, both.isfinite())

    def repel(self, x: Tensor) -> Tensor:
        """x, a value of the negatives, its gradient multiplied by `push`."""
        return x if self.push == 1 else cast(Tensor, _ScaleGradient.apply(x, self.push))

    def _log_sum_exp(self, relation: Relation, scale: float) -> Tensor:
        temperature = self.temperature
        factor = scale / (temperature.item() if isinstance(temperature, Tensor) else temperature)
        if not self.dense and tiles.is_safe(factor, self.candidates.dtype):
            anchors, related, side = self.anchors, partial(self.related, relation), self.tiling.tile
            if isinstance(temperature, Tensor) and temperature.requires_grad:
                anchors = anchors * (temperature.detach() / temperature)  # times 1, with the gradient for t
            candidates = None if anchors is self.candidates else self.candidates
            return tiles.log_sum_exp(anchors, candidates, related, scale=factor, tile=side)
        return self._reduce(relation, lambda logits, mask: masked_log_sum_exp(logits * scale, mask))

    def log_sum_exp_but_top(self, relation: Relation, k: int) -> Tensor:
        """(A,): log Σ_j e^{s_ij} over the related j but the k most similar ones."""

        def without_top(logits: Tensor, mask: Tensor) -> Tensor:
            top = logits.detach().masked_fill(~mask, -torch.inf).topk(k).indices
            return masked_log_sum_exp(logits, mask.scatter(1, top, False))

        return self._reduce(relation, without_top)

    def log_negative_sum_by_rank(self, log_weight: Callable[[Tensor], Tensor]) -> Tensor:
        """(A,): log Σ_j w(u_ij) e^{s_ij} over the views j of other images.

        u_ij in (0, 1] is the share of them that are at most as similar as j, so that equal ones share the highest rank;
        no gradient reaches it.
        """

        def weighted(logits: Tensor, mask: Tensor) -> Tensor:
            n = mask.sum(1, keepdim=True)
            n = n if self.has_equal_ids else n[:1]  # the same for all, so that weights are computed once
            ordered = logits.masked_fill(~mask, torch.inf).sort(1).values
            rank = torch.arange(1, logits.shape[1] + 1, device=logits.device, dtype=logits.dtype)
            weight = log_weight((rank / n.clamp(min=1)).clamp(max=1)).expand_as(ordered)
            last = torch.searchsorted(ordered.detach(), ordered.detach(), right=True) - 1  # of those that are equal
            return masked_log_sum_exp(ordered + weight.gather(1, last), (rank <= n).expand_as(ordered))

        return self._reduce(other_image, weighted)

    def log_mean_exp_up_to(self, relation: Relation, limit: Tensor) -> Tensor:
        """(A,): log of the mean e^{s_ij} over the related j with s_ij <= limit_i, (A,); -inf if there is none."""

        def log_mean(logits: Tensor, mask: Tensor, limit: Tensor) -> Tensor:
            kept = mask & (logits.detach() <= limit[:, None])
            return masked_log_sum_exp(logits, kept) - kept.sum(1).clamp(min=1).to(logits.dtype).log()

        return self._reduce(relation, log_mean, limit)

    def fraction_above(self, relation: Relation, limit: Tensor) -> Tensor:
        """(A,): the part of the related j with s_ij > limit_i, (A,)."""

        def fraction(logits: Tensor, mask: Tensor, limit: Tensor) -> Tensor:
            above = mask & (logits > limit[:, None])
            return above.sum(1).to(logits.dtype) / mask.sum(1).clamp(min=1)

        return self._reduce(relation, fraction, limit)

    def count(self, relation: Relation) -> Tensor:
        """(A,): the number of related candidates of each anchor, in the dtype of z."""
        return torch.cat([self.related(relation, rows).sum(1) for rows in self._chunks()]).to(self.candidates.dtype)

    def mean_logit(self, relation: Relation) -> Tensor:
        """(A,): mean of s_ij over the related j; 0 if no j is related."""
        return self._reduce(relation, lambda logits, mask: (logits * mask).sum(1) / mask.sum(1).clamp(min=1))

    def mean_logit_of_unlike(self, relation: Relation, features: Tensor) -> Tensor:
        """(A,): mean of s_ij over the related j, weighted by 1 - f_i·f_j, f the images' features of length 1 (B, F);
        -inf if all weights are 0. Not with a memory, whose features are unknown."""
        features = features.to(self.candidates.dtype)
        candidates = features.repeat_interleave(self.n_repelling, 0)

        def mean(logits: Tensor, mask: Tensor, anchors: Tensor) -> Tensor:
            weight = mask * (1 - anchors @ candidates.T).clamp(min=0)
            total = weight.sum(1)
            is_some = total > 1e-6  # of rounding
            return torch.where(is_some, (weight * logits).sum(1) / torch.where(is_some, total, 1), -torch.inf)

        return self._reduce(relation, mean, features[self.places])

    def mean_softplus(self, relation: Relation, log_mass: Tensor) -> Tensor:
        """(A,): mean of softplus(log_mass_i - s_ij) over the related j; 0 if no j is related."""

        def mean(logits: Tensor, mask: Tensor, log_mass: Tensor) -> Tensor:
            value = F.softplus(log_mass[:, None] - logits)
            return torch.where(mask, value, 0).sum(1) / mask.sum(1).clamp(min=1)

        return self._reduce(relation, mean, log_mass)

    def _reduce(self, relation: Relation, reduction: Callable[..., Tensor], *anchor_values: Tensor) -> Tensor:
        """reduction(logits, related, *anchor_values) → (A,), at once or in chunks that the backward pass recomputes."""
        if self.dense:
            return reduction(self.logits, self.related(relation), *anchor_values)

        def chunk(rows: slice, anchors: Tensor, candidates: Tensor, *values: Tensor) -> Tensor:
            return reduction(anchors @ candidates.T / self.temperature, self.related(relation, rows), *values)

        parts = []
        for rows in self._chunks():
            inputs = (rows, self.anchors[rows], self.candidates, *(value[rows] for value in anchor_values))
            parts.append(checkpoint(chunk, *inputs, use_reentrant=False, preserve_rng_state=False))
        return torch.cat(parts)

    def _chunks(self) -> list[slice]:
        """Slices of the anchors whose pairs are held at once."""
        if self.dense:
            return [slice(None)]
        side = max(1, self.tiling.chunk_pairs // len(self.candidates))
        return [slice(i, i + side) for i in range(0, len(self.anchors), side)]


class _ScaleGradient(torch.autograd.Function):
    """The identity, whose gradient is multiplied by a factor. A second derivative would find it in the values, too."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, factor: float) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(context: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        _, context.factor = inputs

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return once(gradient * context.factor, gradient), None


def masked_log_sum_exp(x: Tensor, mask: Tensor) -> Tensor:
    """logsumexp over the entries of the last dimension where mask is true; -inf with zero gradient if none is."""
    x = x.masked_fill(~mask, -torch.inf)
    top = x.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(x.dtype).min)
    total = (x - top).exp().sum(-1)
    empty = total == 0
    return torch.where(empty, -torch.inf, top.squeeze(-1) + total.masked_fill(empty, 1).log())


def log_mean_exp(x: Tensor) -> Tensor:
    """log of the mean of e^x over the last dimension."""
    return x.logsumexp(-1) - math.log(x.shape[-1])


def log_sub_exp(x: Tensor, y: Tensor) -> Tensor:
    """log(e^x - e^y); -inf with zero gradient if y >= x."""
    is_positive = x > y
    gap = torch.where(is_positive, y - x, -1.0)
    return torch.where(is_positive, x + torch.log(-torch.expm1(gap)), -torch.inf)


def add_inside_log(log_sum: Tensor, tiny: float, temperature: float | Tensor) -> Tensor:
    """log(Σ + tiny e^{1/t}): the constant that released code adds to a sum of e^{s - 1/t} lest its log be infinite."""
    return torch.logaddexp(log_sum, math.log(tiny) + 1 / temperature + torch.zeros_like(log_sum))
