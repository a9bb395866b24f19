"""Standardize images per channel."""

import torch
from torch import Tensor


class Normalize:
    """uint8, or float in [0, 1], images (N, 3, h, w) → float32, standardized per channel.

    Args:
        mean, std: per channel, of images scaled to [0, 1]; a deviation below 1e-6 counts as 1e-6.
        channels_last: the memory format of the result.
    """

    def __init__(
        self,
        mean: tuple[float, float, float],
        std: tuple[float, float, float],
        *,
        device: torch.device | str = "cpu",
        channels_last: bool = False,
    ) -> None:
        self.mean = torch.tensor(mean, device=device)[:, None, None]
        self.std = torch.tensor(std, device=device)[:, None, None].clamp(min=1e-6)
        self.format = torch.channels_last if channels_last else torch.contiguous_format

    def __call__(self, x: Tensor) -> Tensor:
        x = x / 255 if x.dtype == torch.uint8 else x
        return ((x - self.mean) / self.std).contiguous(memory_format=self.format)
