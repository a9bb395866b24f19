"""log Σ_j e^{s_ij} over related pairs without holding the A × A matrix: time A², memory A · D plus one tile.

The backward pass recomputes each tile. When anchors and candidates are the same embeddings, every tile above the
diagonal serves both of its sides, which halves the work of a symmetric relation.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from contrastive.gathering import once

Related = Callable[[slice, slice], Tensor]


class Tiling(NamedTuple):
    """How much of the A × A matrix of logits is held at once.

    Args:
        max_dense_pairs: up to this many pairs the whole matrix is held; more are computed piece by piece.
        chunk_pairs: pairs of one piece of the reductions other than log-sum-exp.
        tile: side of a square tile of log-sum-exp.
    """

    max_dense_pairs: int
    chunk_pairs: int
    tile: int


CPU = Tiling(max_dense_pairs=2048**2, chunk_pairs=2**22, tile=1024)  # 16 MiB dense, 4 MiB tiles: they stay in the cache
GPU = Tiling(max_dense_pairs=4096**2, chunk_pairs=2**22, tile=4096)  # 64 MiB tiles: few launches of large kernels


def default_tiling(device: torch.device) -> Tiling:
    """The tiling measured to be fast on this kind of device."""
    return GPU if device.type == "cuda" else CPU


def is_safe(scale: float, dtype: torch.dtype) -> bool:
    """Whether e^{scale (cos - 1)} stays a normal number for every cosine, so that one maximum serves all anchors."""
    return 2 * scale < (700 if dtype == torch.float64 else 80)


def log_sum_exp(anchors: Tensor, candidates: Tensor | None, related: Related, *, scale: float, tile: int) -> Tensor:
    """(A,): log Σ_j e^{scale · cos_ij} over the related j; -inf with zero gradient if no j is related.

    Args:
        anchors (A, D): unit vectors; candidates=None means the anchors themselves.
        candidates (K, D): unit vectors; candidates=None means the anchors themselves.
        related: (rows, columns) → bool tile; symmetric if the candidates are the anchors.
        scale: 1 / t, for which `is_safe` holds.
        tile: side of a tile.
    """
    # left out of a graph; by a decorator it would import torch._dynamo for everybody, more than a second
    outside = torch.compiler.disable(_log_sum_exp) if torch.compiler.is_compiling() else _log_sum_exp
    value: Tensor = outside(anchors, candidates, related, scale, tile)
    return value


def _log_sum_exp(anchors: Tensor, candidates: Tensor | None, related: Related, scale: float, tile: int) -> Tensor:
    total: Tensor = _ExpSum.apply(anchors, candidates, related, scale, tile)
    empty = total == 0
    return torch.where(empty, -torch.inf, scale + total.masked_fill(empty, 1).log())


class _ExpSum(torch.autograd.Function):
    """Σ_j e^{scale (cos_ij - 1)} over the related j."""

    @staticmethod
    def forward(anchors: Tensor, candidates: Tensor | None, related: Related, scale: float, tile: int) -> Tensor:
        total = anchors.new_zeros(len(anchors))
        for rows, columns, mirrored in _tiles(anchors, candidates, tile):
            exp = _exp_tile(anchors[rows], _columns(anchors, candidates, columns), related(rows, columns), scale)
            total[rows] += exp.sum(1)
            if mirrored:
                total[columns] += exp.sum(0)
        return total

    @staticmethod
    def setup_context(context: Any, inputs: tuple[Tensor, Tensor | None, Related, float, int], output: Tensor) -> None:
        anchors, candidates, context.related, context.scale, context.tile = inputs
        context.save_for_backward(anchors, candidates)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None, None, None]:
        to_anchors, to_candidates = _gradients(context, gradient * context.scale)
        is_wanted = context.needs_input_grad[1]
        return once(to_anchors, gradient), once(to_candidates, gradient) if is_wanted else None, None, None, None


@torch.no_grad()
def _gradients(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Of what `_ExpSum` has kept, by the gradient of its logits: of the anchors and of the candidates."""
    anchors, candidates = context.saved_tensors
    to_anchors = torch.zeros_like(anchors)
    to_candidates = to_anchors if candidates is None else torch.zeros_like(candidates)
    is_wanted = candidates is None or context.needs_input_grad[1]  # not of a queue
    for rows, columns, mirrored in _tiles(anchors, candidates, context.tile):
        column = _columns(anchors, candidates, columns)
        exp = _exp_tile(anchors[rows], column, context.related(rows, columns), context.scale)
        exp *= gradient[rows, None] + gradient[columns] if mirrored else gradient[rows, None]
        to_anchors[rows].addmm_(exp, column)
        if is_wanted:
            to_candidates[columns].addmm_(exp.T, anchors[rows])
    return to_anchors, to_candidates


def _tiles(anchors: Tensor, candidates: Tensor | None, side: int) -> Iterator[tuple[slice, slice, bool]]:
    """Rows and columns of every tile, and whether the tile also stands for its mirror image."""
    for i in range(0, len(anchors), side):
        first = i if candidates is None else 0
        for j in range(first, len(anchors if candidates is None else candidates), side):
            yield slice(i, i + side), slice(j, j + side), candidates is None and j > i


def _columns(anchors: Tensor, candidates: Tensor | None, columns: slice) -> Tensor:
    return (anchors if candidates is None else candidates)[columns]


def _exp_tile(rows: Tensor, columns: Tensor, related: Tensor, scale: float) -> Tensor:
    return ((rows * scale) @ columns.T).sub_(scale).exp_().mul_(related)
