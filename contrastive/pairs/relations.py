"""Which others count for an anchor: relations between two embeddings, told by image, label and bias."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor


class Identity(NamedTuple):
    """Who an embedding is. Fields broadcast against each other: (A, 1) for anchors, (1, A) for the others."""

    row: Tensor
    image: Tensor
    label: Tensor | None
    bias: Tensor | None

    def over(self, dim: int) -> "Identity":
        """Every field with a new dimension of size 1 at `dim`, to broadcast along it."""
        return self._each(lambda value: value.unsqueeze(dim))

    def part(self, rows: slice) -> "Identity":
        """Those of some rows."""
        return self._each(lambda value: value[rows])

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Identity":
        label, bias = (None if value is None else change(value) for value in (self.label, self.bias))
        return Identity(change(self.row), change(self.image), label, bias)


Relation = Callable[[Identity, Identity], Tensor]  # (anchor, other) → bool, symmetric


def other_image(anchor: Identity, other: Identity) -> Tensor:
    """Every view of every other image: the 2B - 2 negatives of SimCLR."""
    return anchor.image != other.image


def same_class(anchor: Identity, other: Identity) -> Tensor:
    """Another image of the same class; a label of -1 matches nothing."""
    assert anchor.label is not None and other.label is not None
    return (anchor.label == other.label) & (anchor.label >= 0) & (anchor.image != other.image)


def other_class(anchor: Identity, other: Identity) -> Tensor:
    """Another image that is not known to share the class: the negatives of the oracle."""
    return other_image(anchor, other) & ~same_class(anchor, other)


def any_other(anchor: Identity, other: Identity) -> Tensor:
    """Everything but the anchor itself."""
    return anchor.row != other.row


def positive(anchor: Identity, other: Identity) -> Tensor:
    """P(i): everything else of the anchor's class, its own other views among it; -1 is no class."""
    assert anchor.label is not None and other.label is not None
    return (anchor.label == other.label) & (anchor.label >= 0) & (anchor.row != other.row)


def different_class(anchor: Identity, other: Identity) -> Tensor:
    """Neg(i): everything of another class."""
    assert anchor.label is not None and other.label is not None
    return anchor.label != other.label


def conflicting_positive(anchor: Identity, other: Identity) -> Tensor:
    """Everything of the anchor's class that has another bias."""
    assert anchor.bias is not None and other.bias is not None
    return positive(anchor, other) & (anchor.bias != other.bias)
