"""Random rotation."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from contrastive.augmentation.base import Operation, Parameters, uniform


@dataclass(kw_only=True)
class RandomRotation(Operation):
    """Rotate about the center: nearest pixel, black outside (defaults of torchvision's RandomRotation).

    Args:
        degrees: in [0, 180]; the angle is uniform in [-degrees, degrees], counterclockwise.
    """

    degrees: float = 20.0

    def draw(self, n: int, height: int, width: int, generator: Generator) -> Parameters:
        return {"angle": uniform(n, -self.degrees, self.degrees, generator)}

    def apply(self, x: Tensor, parameters: Parameters) -> Tensor:
        return rotate(x, parameters["angle"])


def rotate(x: Tensor, angle: Tensor) -> Tensor:
    """Rotate images by angle (B,) degrees counterclockwise about the center; nearest pixel, black outside."""
    height, width = x.shape[-2:]
    # as torchvision's, or other pixels would be the nearest
    exact = angle if x.device.type == "mps" else angle.double()
    cos, sin = exact.deg2rad().cos().float(), exact.deg2rad().sin().float()
    theta = torch.stack([cos / (width / 2), sin / (height / 2), -sin / (width / 2), cos / (height / 2)], 1)
    column = torch.arange(width, device=x.device, dtype=torch.float32) - (width - 1) / 2
    row = torch.arange(height, device=x.device, dtype=torch.float32) - (height - 1) / 2
    place = torch.stack(torch.meshgrid(column, row, indexing="xy"), -1).view(1, height * width, 2)
    grid = torch.matmul(place, theta.view(-1, 2, 2)).view(-1, height, width, 2)
    return torch.nn.functional.grid_sample(x, grid, mode="nearest", padding_mode="zeros", align_corners=False)
