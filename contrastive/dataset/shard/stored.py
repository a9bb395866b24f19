"""Images that no memory holds: a `Split` indexes them as it does a tensor, and they are read when a step needs them."""

from abc import ABC, abstractmethod
from typing import cast

import torch
from torch import Tensor


class Stored(ABC):
    """`images[index]` is a tensor (b, K, H, W), in the order of the index.

    Args:
        image: shape (K, H, W) of each.
        dtype: uint8 or uint16.
    """

    device = torch.device("cpu")

    def __init__(self, image: torch.Size, dtype: torch.dtype) -> None:
        self.image_shape, self.dtype = image, dtype

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: Tensor) -> Tensor:
        """The images of these rows (b,) int64."""

    @abstractmethod
    def select(self, index: Tensor) -> "Stored":
        """The same images, but only these rows, numbers or a mask; nothing is read."""

    @property
    def shape(self) -> torch.Size:
        return torch.Size((len(self), *self.image_shape))

    @property
    def nbytes(self) -> int:
        """Bytes of the decoded images."""
        return self.shape.numel() * self.dtype.itemsize

    def dim(self) -> int:
        return 4

    def as_tensor(self) -> Tensor:
        """These images, for the type checker: `Split` indexes them as a tensor."""
        return cast(Tensor, self)

    def to(self, device: torch.device | str) -> Tensor:
        """All of them, on a device."""
        return self[torch.arange(len(self))].to(device)
