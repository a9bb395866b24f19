"""Color jitter: brightness, contrast, saturation and hue."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from contrastive.augmentation.base import Operation, Parameters, bernoulli, check_probability, uniform
from contrastive.augmentation.grayscale import grayscale
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
        ConfigError: an argument is out of range, or (from `check_channels`) the images have no colors for saturation
            and hue.
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


def color_jitter(x: Tensor, factors: Tensor, hue: Tensor, order: Tensor) -> Tensor:
    """Brightness (0), contrast (1), saturation (2) and hue (3) in each image's own order.

    Args:
        factors: (B, 3) of brightness, contrast and saturation, 1 = unchanged.
        hue: (B,) full circles, 0 = unchanged.
        order: (B, 4) int64, a permutation of 0..3 for each image: which comes first, second, ...

    The first three are factor · x + (1 - factor) · base, clamped, with black, the mean gray or the gray image as base:
    each of the four places in the order is one such blend for the whole batch, and a hue shift where it is due.
    """
    factors = torch.cat([factors, torch.ones_like(hue)[:, None]], 1).gather(1, order)
    for place, kind in enumerate(order.unbind(1)):
        ratio, gray = factors[:, place], grayscale(x)
        to_mean, to_gray = (1 - ratio) * (kind == 1), (1 - ratio) * (kind == 2)
        base = (to_mean[:, None] * gray.mean((2, 3)))[:, :, None, None] + to_gray[:, None, None, None] * gray
        x = (ratio[:, None, None, None] * x).add_(base).clamp_(0, 1)
        due = (kind == 3) & (hue != 0)
        if x.is_cuda or torch.compiler.is_compiling():  # no data-dependent shapes there: they would wait for the host
            x = torch.where(due[:, None, None, None], shift_hue(x, hue), x)
        else:
            index = due.nonzero().squeeze(1)
            x.index_copy_(0, index, shift_hue(x[index], hue[index]))
    return x


def shift_hue(x: Tensor, hue: Tensor) -> Tensor:
    """Turn the hue of RGB images by hue (B,) full circles."""
    red, green, blue = x.unbind(1)
    value = x.amax(1)
    chroma = value - x.amin(1)
    safe = torch.where(chroma > 0, chroma, 1)
    sector = torch.where(
        value == red,
        (green - blue) / safe,
        torch.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    sector = sector + 6 * hue[:, None, None]
    k = torch.stack([sector + 3, sector + 1, sector - 1], 1)
    k = k.sub_(torch.round(k / 6), alpha=6).abs_()  # distance on the circle of six sectors, at most 3
    return k.neg_().add_(2).clamp_(0, 1).mul_(-chroma[:, None]).add_(value[:, None])


def intensity_jitter(x: Tensor, factors: Tensor, order: Tensor) -> Tensor:
    """Brightness (0) and contrast (1) of images of any channels, in each image's own order.

    Brightness is factor · x, contrast factor · x + (1 - factor) · mean of the channel, both clamped to [0, 1]. Of one
    channel this is `color_jitter` of the gray image.

    Args:
        factors: (B, 2) of brightness and contrast, 1 = unchanged.
        order: (B, 4) int64 as of `color_jitter`, where 2 and 3 do nothing.
    """
    factors = torch.cat([factors, torch.ones_like(factors)], 1).gather(1, order)
    for place, kind in enumerate(order.unbind(1)):
        ratio = factors[:, place, None, None, None]
        base = (1 - ratio) * (kind == 1)[:, None, None, None] * x.mean((2, 3), keepdim=True)
        x = (ratio * x + base).clamp(0, 1)
    return x
