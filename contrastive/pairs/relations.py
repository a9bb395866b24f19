"""Relations: which candidates count for an anchor, decided by image, label and bias."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class SampleId(NamedTuple):
    """Row, image, label and bias of each embedding; -1 stands for an unknown label or bias, and for what shows no image
    of the batch.

    The fields of anchors and candidates broadcast against each other: (A, 1) and (1, A).
    """

    row: Tensor
    image: Tensor
    label: Tensor
    bias: Tensor

    def unsqueeze(self, dim: int) -> "SampleId":
        """Insert a dimension of size 1 at `dim` into every field."""
        return SampleId(*(field.unsqueeze(dim) for field in self))

    def select(self, rows: slice) -> "SampleId":
        """Slice every field along its first dimension."""
        return SampleId(*(field[rows] for field in self))

    def repeat(self, n_views: int, *, first_row: int = 0) -> "SampleId":
        """(B,) of images → (B · n_views,) of their views, in rows of their own from `first_row` on."""
        rows = torch.arange(first_row, first_row + n_views * len(self.row), device=self.row.device)
        return SampleId(rows, *(field.repeat_interleave(n_views) for field in self[1:]))


# (anchor, candidate) → bool; must be symmetric
Relation = Callable[[SampleId, SampleId], Tensor]


def other_image(anchor: SampleId, candidate: SampleId) -> Tensor:
    """Every view of every other image: the 2B - 2 negatives of SimCLR."""
    return anchor.image != candidate.image


def same_class(anchor: SampleId, candidate: SampleId) -> Tensor:
    """Views of other images of the same class; a label of -1 matches nothing."""
    return (anchor.label == candidate.label) & (anchor.label >= 0) & (anchor.image != candidate.image)


def other_class(anchor: SampleId, candidate: SampleId) -> Tensor:
    """Views of other images not known to share the class: the negatives of the oracle."""
    return other_image(anchor, candidate) & ~same_class(anchor, candidate)


def any_other(anchor: SampleId, candidate: SampleId) -> Tensor:
    """Every embedding except the anchor itself."""
    return anchor.row != candidate.row


def positive(anchor: SampleId, candidate: SampleId) -> Tensor:
    """P(i) of SupCon: every other embedding of the anchor's class, its own other views included; -1 is no class."""
    return (anchor.label == candidate.label) & (anchor.label >= 0) & (anchor.row != candidate.row)


def different_class(anchor: SampleId, candidate: SampleId) -> Tensor:
    """Every embedding whose label differs from the anchor's."""
    return anchor.label != candidate.label


def conflicting_positive(anchor: SampleId, candidate: SampleId) -> Tensor:
    """Embeddings of the anchor's class with another bias."""
    return positive(anchor, candidate) & (anchor.bias != candidate.bias)
