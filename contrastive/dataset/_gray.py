"""Gray images with one channel: handwritten digits before they become RGB."""

from typing import NamedTuple

from torch import Tensor

from contrastive.types import Split


class GrayImages(NamedTuple):
    """One split of a gray dataset."""

    image: Tensor  # (N, H, W) uint8
    label: Tensor  # (N,) int64

    def as_rgb(self) -> Split:
        """The gray values repeated over three channels."""
        return Split(self.image[:, None].repeat(1, 3, 1, 1), self.label)
