"""log Σ_j e^{s_ij} over related pairs without ever holding the A × A matrix: time A², memory A · D and one tile.

What a tile held is computed again in the backward pass. Where anchors and others are the same embeddings every tile
above the diagonal serves both of its sides, which halves the work of a relation that is symmetric, as all of ours are.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

SIDE = 1024  # a float32 tile is 4 MiB; between 512 and 2,048 the time hardly changes on a CPU
SIDE_ON_GPU = 4096  # few launches of large kernels: a tile is 64 MiB
Related = Callable[[slice, slice], Tensor]


def safe(scale: float, dtype: torch.dtype) -> bool:
    """Whether e^{scale (cos - 1)} stays a normal number for every cosine, so that one maximum serves all anchors."""
    return 2 * scale < (700 if dtype == torch.float64 else 80)


@torch.compiler.disable
def log_sum_exp(anchors: Tensor, others: Tensor | None, related: Related, scale: float) -> Tensor:
    """(A,): log Σ_j e^{scale · cos_ij} over the related j; -inf with zero gradient where there is none.

    Args:
        anchors (A, D), others (N, D): unit vectors; None = the anchors themselves.
        related: (rows, columns) → bool tile; symmetric where the others are the anchors.
        scale: 1 / t, small enough to be `safe`.
    """
    total = _ExpSum.apply(anchors, others, related, scale)
    empty = total == 0
    return torch.where(empty, -torch.inf, scale + total.masked_fill(empty, 1).log())


class _ExpSum(torch.autograd.Function):
    """Σ_j e^{scale (cos_ij - 1)} over the related j."""

    @staticmethod
    def forward(context: Any, anchors: Tensor, others: Tensor | None, related: Related, scale: float) -> Tensor:
        context.save_for_backward(anchors, others)
        context.related, context.scale = related, scale
        total = anchors.new_zeros(len(anchors))
        for rows, columns, mirrored in _tiles(anchors, others):
            tile = _tile(anchors, others, rows, columns, related, scale)
            total[rows] += tile.sum(1)
            if mirrored:
                total[columns] += tile.sum(0)
        return total

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None, None]:  # type: ignore[override]
        anchors, others = context.saved_tensors
        to_anchors = torch.zeros_like(anchors)
        to_others = to_anchors if others is None else torch.zeros_like(others)
        gradient = gradient * context.scale
        for rows, columns, mirrored in _tiles(anchors, others):
            tile = _tile(anchors, others, rows, columns, context.related, context.scale)
            tile *= gradient[rows, None] + gradient[columns] if mirrored else gradient[rows, None]
            to_anchors[rows].addmm_(tile, (anchors if others is None else others)[columns])
            to_others[columns].addmm_(tile.T, anchors[rows])
        return to_anchors, None if others is None else to_others, None, None


def _tiles(anchors: Tensor, others: Tensor | None) -> Iterator[tuple[slice, slice, bool]]:
    """Rows and columns of every tile, and whether it stands for its mirror image too."""
    side = SIDE_ON_GPU if anchors.is_cuda else SIDE
    for i in range(0, len(anchors), side):
        for j in range(i if others is None else 0, len(anchors if others is None else others), side):
            yield slice(i, i + side), slice(j, j + side), others is None and j > i


def _tile(
    anchors: Tensor, others: Tensor | None, rows: slice, columns: slice, related: Related, scale: float
) -> Tensor:
    tile = (anchors[rows] * scale) @ (anchors if others is None else others)[columns].T
    return tile.sub_(scale).exp_().mul_(related(rows, columns))
