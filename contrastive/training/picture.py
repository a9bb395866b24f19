"""A picture of augmented views, for people to look at."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torchvision.utils import make_grid

LEAST = 96  # pixels of a tile's shorter side, at least


def view_grid(images: Tensor, views: Tensor) -> Tensor:
    """One picture (3, H, W) in [0, 1]: the images as they are, then a row for each view; a column for each image.

    Small images are enlarged by a whole factor, pixel by pixel.

    Args:
        images: uint8 (n, 3, h, w). views: (V, n, 3, h', w') in [0, 1], drawn from them; view 1 of a noisy pair shows
            another image.
    """
    size = views.shape[-2:]
    original = F.interpolate(images.float().cpu() / 255, size=size, mode="bilinear", antialias=True)
    tiles = torch.cat([original, views.flatten(0, 1).float().cpu()])
    factor = max(1, -(-LEAST // min(size)))  # rounded up
    tiles = tiles.repeat_interleave(factor, dim=2).repeat_interleave(factor, dim=3)
    grid: Tensor = make_grid(tiles, nrow=views.shape[1], padding=2, pad_value=1.0)
    return grid
