"""No augmentation, for supervised recipes."""

import torch
from torch import Generator, Tensor


class Nothing:
    """uint8 (B, 3, H, W) → float32 (B, 3, H, W) in [0, 1], as it is; nothing is drawn."""

    def draw(self, n: int, height: int, width: int, generator: Generator) -> tuple[()]:
        return ()

    def apply(self, x: Tensor, parameters: tuple[()]) -> Tensor:
        return x.to(torch.float32) / 255
