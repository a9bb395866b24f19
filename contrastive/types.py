"""Plain records that travel between the stations, and the shape legend every docstring uses.

B images in a batch, V views of each, A = B·V anchors, M = V - 1 positives of an anchor, F features, D projections,
C classes, N images of a split. Images are uint8 (N, 3, H, W), labels and biases int64 (N,), label -1 means unlabeled.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor


class Shard(NamedTuple):
    """Slice of the global batch owned by one rank: equal parts, in rank order."""

    rank: int = 0
    world_size: int = 1

    def of(self, n: int) -> slice:
        """The slice of n images, a multiple of `world_size`, that this rank holds."""
        size = n // self.world_size
        return slice(self.rank * size, (self.rank + 1) * size)


@dataclass(frozen=True)
class Split:
    """Images with their labels and, where the data has them, bias labels."""

    image: Tensor  # (N, 3, H, W) uint8
    label: Tensor  # (N,) int64, -1 = unlabeled
    bias: Tensor | None = None  # (N,) int64

    def __len__(self) -> int:
        return len(self.image)

    def __getitem__(self, index: Tensor) -> "Split":
        return Split(self.image[index], self.label[index], None if self.bias is None else self.bias[index])

    def to(self, device: torch.device | str) -> "Split":
        return Split(self.image.to(device), self.label.to(device), None if self.bias is None else self.bias.to(device))


@dataclass(frozen=True)
class Batch:
    """B images for one step."""

    image: Tensor  # (B, 3, H, W) uint8
    label: Tensor  # (B,) int64
    bias: Tensor | None = None  # (B,) int64
    view1_source: Tensor | None = None  # (B, 3, H, W) uint8, images to draw view 1 from; None = the same images

    def to(self, device: torch.device) -> "Batch":
        """Copy to the device, through pinned memory to a GPU."""
        return Batch(
            _move(self.image, device),
            _move(self.label, device),
            bias=None if self.bias is None else _move(self.bias, device),
            view1_source=None if self.view1_source is None else _move(self.view1_source, device),
        )


def _move(value: Tensor, device: torch.device) -> Tensor:
    if device.type == "cuda" and not value.is_cuda:
        value = value.pin_memory()
    return value.to(device, non_blocking=True)


@dataclass(frozen=True)
class Data:
    """A dataset's named splits and facts.

    `pretrain` is the training split and the kNN bank; `probe_val` is a fixed tenth of its labeled images, used only to
    select (biased data shows it with nearly unbiased colors), and `probe_train` the other nine tenths, as indices into
    `pretrain` whose features are known already. With hold_out the tenth is no part of `pretrain`.
    """

    pretrain: Split
    probe_train: Tensor  # (n,) int64
    probe_val: Split
    test: Split
    classes: tuple[str, ...]
    mean: tuple[float, float, float]  # of the training images scaled to [0, 1]
    std: tuple[float, float, float]
    biases: tuple[str, ...] = ()  # names of the bias labels
    facts: dict[str, str] = field(default_factory=dict)  # what else a run should record of its data
    probe_val_index: Tensor | None = None  # where probe_val lies in pretrain; None: held out or shown recolored

    def to(self, device: torch.device) -> "Data":
        return replace(
            self,
            pretrain=self.pretrain.to(device),
            probe_train=self.probe_train.to(device),
            probe_val=self.probe_val.to(device),
            test=self.test.to(device),
        )


@dataclass(frozen=True)
class Features:
    """What a frozen encoder makes of a split: `h` (N, F) float32, `label` (N,) int64, `bias` (N,) int64 or None."""

    h: Tensor
    label: Tensor
    bias: Tensor | None = None

    def __getitem__(self, index: Tensor) -> "Features":
        return Features(self.h[index], self.label[index], None if self.bias is None else self.bias[index])
