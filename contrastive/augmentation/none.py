"""No augmentation, for supervised recipes."""

import torch
from torch import Generator, Tensor


class Nothing:
    """uint8 (B, 3, H, W) → float32 (B, 3, H, W) in [0, 1], as it is."""

    def __call__(self, x: Tensor, generator: Generator) -> Tensor:
        return x.to(torch.float32) / 255
