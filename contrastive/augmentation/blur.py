"""Gaussian blur."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from contrastive.augmentation.base import (
    Operation,
    Parameters,
    bernoulli,
    check_probability,
    check_range,
    separable,
    uniform,
)
from contrastive.errors import ConfigError, check_odd


@dataclass(kw_only=True)
class GaussianBlur(Operation):
    """Blur with reflected borders (RandomApply([GaussianBlur]) of torchvision).

    Args:
        kernel_size: odd number of pixels.
        sigma: (least, most) standard deviation in pixels, above 0.
        p: probability for each image.

    Raises:
        ConfigError: an argument is out of range, or (from `output_size`) the kernel is too large for the image.
    """

    kernel_size: int = 3
    sigma: tuple[float, float] = (0.1, 2.0)
    p: float = 0.5

    def __post_init__(self) -> None:
        check_odd("augmentation.ops.blur.kernel_size", self.kernel_size, example=3)
        self.sigma = check_range("blur.sigma", self.sigma, most=math.inf, example="[0.1,2.0]")
        check_probability("blur.p", self.p)

    def draw(self, n: int, height: int, width: int, generator: Generator) -> Parameters:
        """Standard deviations; 0 = not blurred."""
        applied = bernoulli(n, self.p, generator)
        return {"sigma": torch.where(applied, uniform(n, *self.sigma, generator), 0.0)}

    def apply(self, x: Tensor, parameters: Parameters) -> Tensor:
        rows, columns = (blur_matrix(parameters["sigma"], side, self.kernel_size) for side in x.shape[-2:])
        return separable(x, rows, columns)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        if self.p > 0 and not self.kernel_size // 2 < min(height, width):
            raise ConfigError(
                f"augmentation.ops.blur.kernel_size={self.kernel_size} is too large for views of {height} × {width} "
                "pixels: try augmentation.ops.blur.kernel_size=3"
            )
        return height, width


def blur_matrix(sigma: Tensor, n: int, kernel_size: int) -> Tensor:
    """(B, n, n): Gaussian blur of n pixels with reflected borders; sigma (B,), 0 leaves the image as it is."""
    radius = kernel_size // 2
    tap = torch.arange(-radius, radius + 1, device=sigma.device)
    weight = torch.exp(-0.5 * (tap / sigma.clamp(min=1e-3)[:, None]) ** 2)
    weight = weight / weight.sum(-1, keepdim=True)
    source = (torch.arange(n, device=sigma.device) + tap[:, None]).abs()  # reflected at the left border ...
    source = (n - 1) - ((n - 1) - source).abs()  # ... and at the right one
    shift = F.one_hot(source, n).to(weight.dtype)  # (kernel_size, n, n)
    return torch.einsum("bt,tij->bij", weight, shift)


def blur_uint8(x: Tensor) -> Tensor:
    """uint8 or uint16 (B, K, H, W), blurred by a Gaussian of 2 pixels over a tenth of the side (3 pixels at 32)."""
    height, width = x.shape[-2:]
    sigma = torch.full((len(x),), 2.0, device=x.device)
    rows, columns = (blur_matrix(sigma, n, 2 * max(1, n // 20) + 1) for n in (height, width))
    return separable(x.float(), rows, columns).round().to(x.dtype)
