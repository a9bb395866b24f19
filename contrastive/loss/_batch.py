"""The arguments of one call of a loss: their shapes, and the batch that several processes share."""

from typing import NamedTuple

import torch
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.gathering import Group, check_equal_sizes, gather, shard_of
from contrastive.pairs.others import Others
from contrastive.types import widen


def is_view(x: object) -> bool:
    """Whether the second place holds the second view: labels are whole numbers."""
    return isinstance(x, Tensor) and x.is_floating_point() and x.dim() > 1


def check_shapes(z: Tensor, label: Tensor | None, bias: Tensor | None) -> None:
    """Raise ConfigError unless z is (B, V, D), and label and bias are whole numbers (B,)."""
    if not isinstance(z, Tensor):
        raise ConfigError(
            f"embeddings must be tensors, got {type(z).__name__}: try loss(torch.tensor(z0), torch.tensor(z1))"
        )
    for name, value in (("label", label), ("bias", bias)):
        if value is None:
            continue
        if not isinstance(value, Tensor):
            raise ConfigError(
                f"{name} must be a tensor of whole numbers (B,), got {type(value).__name__}: "
                f"try a number for each class, as {name}=torch.tensor([0, 2, 1])"
            )
        if value.is_floating_point():
            raise ConfigError(
                f"{name} must be whole numbers (B,), got {value.dtype} of shape {tuple(value.shape)}: try {name}.long()"
            )
        if value.shape != z.shape[:1]:
            raise ConfigError(
                f"{name} must have the shape (B,) = ({len(z)},), got {tuple(value.shape)}: "
                f"try one {name} for each image, not for each view"
            )
    if z.dim() != 3:
        raise ConfigError(f"z must be (B, V, D), got {tuple(z.shape)}: for two views (B, D) try loss(z0, z1)")


class Call(NamedTuple):
    """The arguments of a call that are rows of the batch, and the images that are anchors."""

    z: Tensor
    label: Tensor | None
    bias: Tensor | None
    anchors: slice
    rows: Tensor | None  # of the training data
    others: Others

    def gathered(self, group: Group) -> "Call":
        """The batch of all processes of the group, with this process's anchors; a memory is not gathered.

        Raises:
            ConfigError: batches of different sizes, or anchors that the caller chose.
        """
        # left out of a graph, as `tiles.log_sum_exp` is
        outside = torch.compiler.disable(_gathered) if torch.compiler.is_compiling() else _gathered
        call: Call = outside(self, group)
        return call


def _gathered(call: Call, group: Group) -> Call:
    if call.anchors != slice(None):
        raise ConfigError("gather=True chooses the anchors of each process: try it without anchors")
    check_equal_sizes(call.z, group)

    def whole(x: Tensor | None) -> Tensor | None:
        return None if x is None else gather(x, group)

    z = gather(widen(call.z), group)
    others = call.others._replace(keys=whole(call.others.keys), ids=whole(call.others.ids))
    anchors = shard_of(group).of(len(z))
    return Call(z, whole(call.label), whole(call.bias), anchors, whole(call.rows), others)
