"""Color jitter: brightness, contrast, saturation and hue."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from contrastive.augmentation.base import Operation, Parameters, bernoulli, check_probability, uniform
from contrastive.augmentation.functional import color_jitter
from contrastive.errors import check_between


@dataclass(kw_only=True)
class ColorJitter(Operation):
    """Change brightness, contrast, saturation and hue in random order (RandomApply([ColorJitter]) of torchvision).

    Args:
        brightness: strength s in [0, 1]; the factor is uniform in [1 - s, 1 + s].
        contrast: strength s in [0, 1]; the factor is uniform in [1 - s, 1 + s].
        saturation: strength s in [0, 1]; the factor is uniform in [1 - s, 1 + s].
        hue: strength s in [0, 0.5]; the shift is uniform in [-s, s] full circles.
        p: probability for each image.
    """

    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1
    p: float = 0.8

    def __post_init__(self) -> None:
        check_between("augmentation.ops.jitter.brightness", self.brightness, 0, 1, example=0.4)
        check_between("augmentation.ops.jitter.contrast", self.contrast, 0, 1, example=0.4)
        check_between("augmentation.ops.jitter.saturation", self.saturation, 0, 1, example=0.4)
        check_between("augmentation.ops.jitter.hue", self.hue, 0, 0.5, example=0.1)
        check_probability("jitter.p", self.p)

    def draw(self, n: int, height: int, width: int, generator: Generator) -> Parameters:
        """Factors, hue shifts and order (n, 4); images that stay as they are have factors 1 and shift 0."""
        applied = bernoulli(n, self.p, generator)

        def factor(strength: float) -> Tensor:
            return torch.where(applied, uniform(n, 1 - strength, 1 + strength, generator), 1.0)

        return {
            "brightness": factor(self.brightness),
            "contrast": factor(self.contrast),
            "saturation": factor(self.saturation),
            "hue": torch.where(applied, uniform(n, -self.hue, self.hue, generator), 0.0),
            "order": torch.rand(n, 4, generator=generator, device=generator.device).argsort(1),
        }

    def apply(self, x: Tensor, parameters: Parameters) -> Tensor:
        if self.p == 0:
            return x
        brightness, contrast, saturation, hue, order = (
            parameters[key] for key in ("brightness", "contrast", "saturation", "hue", "order")
        )
        return color_jitter(x, torch.stack([brightness, contrast, saturation], 1), hue, order)
