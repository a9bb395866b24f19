"""Resize images that are in memory."""

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 1000  # images resized at once


def resize(image: Tensor, size: int) -> Tensor:
    """uint8 (N, 3, H, H) → uint8 (N, 3, size, size), bilinear with antialiasing; the image itself if H = size."""
    if size == image.shape[-1]:
        return image
    parts = [
        F.interpolate(part.float(), size=(size, size), mode="bilinear", antialias=True).round().to(torch.uint8)
        for part in torch.split(image, CHUNK)
    ]
    return torch.cat(parts)
