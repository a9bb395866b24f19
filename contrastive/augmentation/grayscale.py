"""Random grayscale."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from contrastive.augmentation.base import Operation, Parameters, bernoulli, check_probability
from contrastive.errors import ConfigError

GRAY = (0.2989, 0.587, 0.114)  # ITU-R 601-2 luma, as torchvision


@dataclass(kw_only=True)
class Grayscale(Operation):
    """Replace the three channels by their luma (torchvision's RandomGrayscale).

    Args:
        p: probability for each image.

    Raises:
        ConfigError: p is out of range, or (from `check_channels`) the images are not RGB.
    """

    p: float = 0.2

    def __post_init__(self) -> None:
        check_probability("grayscale.p", self.p)

    def check_channels(self, n: int) -> None:
        if self.p > 0 and n != 3:
            raise ConfigError(
                f"the gray of augmentation.ops.grayscale is made of red, green and blue, and these images have {n} "
                f"channel{'s' if n > 1 else ''}: try augmentation=intensity"
            )

    def draw(self, n: int, height: int, width: int, generator: Generator) -> Parameters:
        return {"applied": bernoulli(n, self.p, generator)}

    def apply(self, x: Tensor, parameters: Parameters) -> Tensor:
        return torch.where(parameters["applied"][:, None, None, None], grayscale(x), x)


def grayscale(x: Tensor) -> Tensor:
    """(B, 1, H, W) luma."""
    return (GRAY[0] * x[:, :1]).add_(x[:, 1:2], alpha=GRAY[1]).add_(x[:, 2:3], alpha=GRAY[2])
