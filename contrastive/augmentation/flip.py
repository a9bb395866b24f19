"""Horizontal flip."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from contrastive.augmentation.base import Operation, Parameters, bernoulli, check_probability


@dataclass(kw_only=True)
class HorizontalFlip(Operation):
    """Mirror left and right. The crops flip at no cost: use this operation only without a crop.

    Args:
        p: probability for each image.
    """

    p: float = 0.5

    def __post_init__(self) -> None:
        check_probability("flip.p", self.p)

    def draw(self, n: int, height: int, width: int, generator: Generator) -> Parameters:
        return {"applied": bernoulli(n, self.p, generator)}

    def apply(self, x: Tensor, parameters: Parameters) -> Tensor:
        return torch.where(parameters["applied"][:, None, None, None], x.flip(-1), x)
