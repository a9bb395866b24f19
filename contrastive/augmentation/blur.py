"""Gaussian blur."""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from contrastive.augmentation.base import Operation, Parameters, bernoulli, check_probability, check_range, uniform
from contrastive.augmentation.functional import blur_matrix, separable
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
        if self.p == 0:
            return x
        rows, columns = (blur_matrix(parameters["sigma"], side, self.kernel_size) for side in x.shape[-2:])
        return separable(x, rows, columns)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        if self.p > 0 and not self.kernel_size // 2 < min(height, width):
            raise ConfigError(
                f"augmentation.ops.blur.kernel_size={self.kernel_size} is too large for views of {height} × {width} "
                "pixels: try augmentation.ops.blur.kernel_size=3"
            )
        return height, width
