"""Random solarization."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from contrastive.augmentation.base import Operation, Parameters, bernoulli, check_probability
from contrastive.errors import check_between


@dataclass(kw_only=True)
class Solarize(Operation):
    """Invert the values at or above a threshold (torchvision's RandomSolarize; used by BYOL, Grill et al. 2020).

    Args:
        p: probability for each image.
        threshold: in [0, 1]; values x ≥ threshold become 1 - x.
    """

    p: float = 0.2
    threshold: float = 0.5

    def __post_init__(self) -> None:
        check_probability("solarize.p", self.p)
        check_between("augmentation.ops.solarize.threshold", self.threshold, 0, 1, example=0.5)

    def draw(self, n: int, height: int, width: int, generator: Generator) -> Parameters:
        return {"applied": bernoulli(n, self.p, generator)}

    def apply(self, x: Tensor, parameters: Parameters) -> Tensor:
        return torch.where(parameters["applied"][:, None, None, None] & (x >= self.threshold), 1 - x, x)
