"""Color jitter: brightness, contrast, saturation and hue."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from contrastive.augmentation.base import Operation, Parameters, bernoulli, check_probability, uniform
from contrastive.augmentation.functional import color_jitter, intensity_jitter
from contrastive.errors import ConfigError, check_at_least, check_between

RGB_OF_MANY = ", or 'augmentation.ops.jitter.channels=[RED,GREEN,BLUE]'"


@dataclass(kw_only=True)
class ColorJitter(Operation):
    """Change brightness, contrast, saturation and hue in random order (RandomApply([ColorJitter]) of torchvision).

    Args:
        brightness: strength s in [0, 1]; the factor is uniform in [1 - s, 1 + s].
        contrast: strength s in [0, 1]; the factor is uniform in [1 - s, 1 + s].
        saturation: strength s in [0, 1]; the factor is uniform in [1 - s, 1 + s].
        hue: strength s in [0, 0.5]; the shift is uniform in [-s, s] full circles.
        p: probability for each image.
        channels: the channels that change, numbered from 0; None = all. Of three channels, which are then red, green
            and blue in this order, all four change. Of others brightness and contrast do, the contrast about the mean
            of each channel, and saturation and hue must be 0.

    Raises:
        ConfigError: an argument is out of range, or (from `check_channels`) the images lack one of `channels`, or have
            no colors for saturation and hue.
    """

    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1
    p: float = 0.8
    channels: Sequence[int] | None = None

    def __post_init__(self) -> None:
        check_between("augmentation.ops.jitter.brightness", self.brightness, 0, 1, example=0.4)
        check_between("augmentation.ops.jitter.contrast", self.contrast, 0, 1, example=0.4)
        check_between("augmentation.ops.jitter.saturation", self.saturation, 0, 1, example=0.4)
        check_between("augmentation.ops.jitter.hue", self.hue, 0, 0.5, example=0.1)
        check_probability("jitter.p", self.p)
        if self.channels is not None:
            check_at_least("augmentation.ops.jitter.channels", self.channels, 0, example="[0,1,2]")

    def check_channels(self, n: int) -> None:
        if self.channels is not None and max(self.channels) >= n:
            raise ConfigError(
                f"augmentation.ops.jitter.channels={list(self.channels)} names more than the channels 0 to {n - 1} of "
                "these images: try augmentation.ops.jitter.channels=null"
            )
        changed = n if self.channels is None else len(self.channels)
        if changed != 3 and self.p > 0 and (self.saturation or self.hue):
            raise ConfigError(
                f"saturation and hue are of red, green and blue, and augmentation.ops.jitter changes {changed} of {n} "
                f"channels: try augmentation=intensity{RGB_OF_MANY if n > 3 else ''}"
            )

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
        # the channels by slices: a GPU would read an index from the host in each step
        planes = x.unbind(1)
        changed = x if self.channels is None else torch.stack([planes[c] for c in self.channels], 1)
        if changed.shape[1] == 3:
            changed = color_jitter(changed, torch.stack([brightness, contrast, saturation], 1), hue, order)
        else:
            changed = intensity_jitter(changed, torch.stack([brightness, contrast], 1), order)
        if self.channels is None:
            return changed
        new = dict(zip(self.channels, changed.unbind(1), strict=True))
        return torch.stack([new.get(c, plane) for c, plane in enumerate(planes)], 1)
