"""The augmentations of SimCLR, batched."""

import math
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from contrastive.augmentation import _functional as image
from contrastive.errors import ConfigError


class Parameters(NamedTuple):
    """What was drawn, (B,) each: the box in pixels, factors, and which of the operations happen."""

    top: Tensor
    left: Tensor
    height: Tensor
    width: Tensor
    flip: Tensor
    brightness: Tensor
    contrast: Tensor
    saturation: Tensor
    hue: Tensor
    order: Tensor  # (B, 4): brightness 0, contrast 1, saturation 2, hue 3
    gray: Tensor
    sigma: Tensor  # 0 = not blurred


class SimCLR:
    """Random resized crop, flip, color jitter, grayscale and blur (Chen et al. 2020, appendix A).

    `augmentation(x, generator)` maps uint8 (B, 3, H, W) to float32 (B, 3, h, w) in [0, 1], each image with its own
    parameters. `draw` and `apply` are the two halves. Given the same parameters it equals torchvision's functionals.

    Args:
        size: side of a view in pixels; None keeps the image's own.
        crop_scale: (least, most) share of the area, in (0, 1]; crop_ratio: (least, most) width / height.
        flip: probability of a horizontal flip.
        jitter: strengths (brightness, contrast, saturation, hue): factors from [1 - s, 1 + s], hue from [-s, s].
        jitter_prob, grayscale, blur: probabilities.
        blur_kernel: odd size in pixels; blur_sigma: (least, most) in pixels.
        antialias: average all pixels where a crop shrinks (PIL's and torchvision's default) instead of skipping some.
            A crop only shrinks when it is larger than `size`, so this changes nothing for views of the image's size.
    """

    def __init__(
        self,
        *,
        size: int | None,
        crop_scale: tuple[float, float],
        crop_ratio: tuple[float, float],
        flip: float,
        jitter: tuple[float, float, float, float],
        jitter_prob: float,
        grayscale: float,
        blur: float,
        blur_kernel: int,
        blur_sigma: tuple[float, float],
        antialias: bool,
    ) -> None:
        for name, p in (("flip", flip), ("jitter_prob", jitter_prob), ("grayscale", grayscale), ("blur", blur)):
            if not 0 <= p <= 1:
                raise ConfigError(f"augmentation.{name} is a probability, got {p}: try augmentation.{name}=0.5")
        if not 0 < crop_scale[0] <= crop_scale[1] <= 1:
            raise ConfigError(
                f"augmentation.crop_scale is a range within (0, 1], got {crop_scale}: "
                "try augmentation.crop_scale=[0.08,1]"
            )
        if not 0 < crop_ratio[0] <= crop_ratio[1]:
            raise ConfigError(
                f"augmentation.crop_ratio is a range above 0, got {crop_ratio}: "
                "try augmentation.crop_ratio=[0.75,1.3333]"
            )
        if len(jitter) != 4 or not all(0 <= s <= 1 for s in jitter[:3]) or not 0 <= jitter[3] <= 0.5:
            raise ConfigError(
                f"augmentation.jitter is four strengths, the hue's at most 0.5, got {jitter}: "
                "try augmentation.jitter=[0.4,0.4,0.4,0.1]"
            )
        if not blur_kernel >= 1 or blur_kernel % 2 != 1:
            raise ConfigError(
                f"augmentation.blur_kernel must be odd, got {blur_kernel}: try augmentation.blur_kernel=3"
            )
        if not 0 < blur_sigma[0] <= blur_sigma[1]:
            raise ConfigError(
                f"augmentation.blur_sigma is a range above 0, got {blur_sigma}: try augmentation.blur_sigma=[0.1,2.0]"
            )
        if size is not None and not size > 0:
            raise ConfigError(f"augmentation.size is a side in pixels, got {size}: try augmentation.size=null")
        self.size = size
        self.crop_scale, self.crop_ratio, self.flip = crop_scale, crop_ratio, flip
        self.jitter, self.jitter_prob, self.grayscale = jitter, jitter_prob, grayscale
        self.blur, self.blur_kernel, self.blur_sigma, self.antialias = blur, blur_kernel, blur_sigma, antialias

    def __call__(self, x: Tensor, generator: Generator) -> Tensor:
        return self.apply(x, self.draw(len(x), x.shape[-2], x.shape[-1], generator))

    def draw(self, n: int, height: int, width: int, generator: Generator) -> Parameters:
        """Parameters for n images of height × width pixels."""

        def uniform(low: float, high: float, *shape: int) -> Tensor:
            return torch.rand(n, *shape, generator=generator, device=generator.device) * (high - low) + low

        jittered = uniform(0, 1) < self.jitter_prob

        def factor(strength: float) -> Tensor:
            return torch.where(jittered, uniform(1 - strength, 1 + strength), 1.0)

        hue = torch.where(jittered, uniform(-self.jitter[3], self.jitter[3]), 0.0)
        sigma = torch.where(uniform(0, 1) < self.blur, uniform(*self.blur_sigma), 0.0)
        return Parameters(
            *self._boxes(n, height, width, generator),
            uniform(0, 1) < self.flip,
            factor(self.jitter[0]),
            factor(self.jitter[1]),
            factor(self.jitter[2]),
            hue,
            uniform(0, 1, 4).argsort(1),
            uniform(0, 1) < self.grayscale,
            sigma,
        )

    def _boxes(self, n: int, height: int, width: int, generator: Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Top, left, height, width as torchvision draws them: ten tries each, then the largest central box."""
        tries, device = 10, generator.device
        rand = torch.rand(4, n, tries, generator=generator, device=device)
        area = height * width * (self.crop_scale[0] + rand[0] * (self.crop_scale[1] - self.crop_scale[0]))
        low, high = (math.log(r) for r in self.crop_ratio)
        ratio = torch.exp(low + rand[1] * (high - low))
        w, h = (area * ratio).sqrt().round(), (area / ratio).sqrt().round()
        fits = (w > 0) & (w <= width) & (h > 0) & (h <= height)
        first = fits.to(torch.uint8).argmax(1, keepdim=True)
        w, h, rand_y, rand_x = (value.gather(1, first).squeeze(1) for value in (w, h, rand[2], rand[3]))
        top, left = (rand_y * (height - h + 1)).floor(), (rand_x * (width - w + 1)).floor()
        least, most = self.crop_ratio
        whole_w, whole_h = width, height
        if width / height < least:
            whole_h = round(width / least)
        elif width / height > most:
            whole_w = round(height * most)
        fitted = fits.any(1)
        return (
            torch.where(fitted, top, (height - whole_h) // 2),
            torch.where(fitted, left, (width - whole_w) // 2),
            torch.where(fitted, h, whole_h),
            torch.where(fitted, w, whole_w),
        )

    def apply(self, x: Tensor, p: Parameters) -> Tensor:
        """uint8 (B, 3, H, W) and its parameters → float32 (B, 3, h, w) in [0, 1]."""
        height, width = (self.size or side for side in x.shape[-2:])
        if self.blur != 0 and not self.blur_kernel // 2 < min(height, width):
            raise ConfigError(
                f"augmentation.blur_kernel={self.blur_kernel} is too large for views of {height} × {width} pixels: "
                "try augmentation.blur_kernel=3"
            )
        rows = image.resize_matrix(p.top, p.height, x.shape[-2], height, antialias=self.antialias)
        columns = image.resize_matrix(p.left, p.width, x.shape[-1], width, antialias=self.antialias)
        columns = torch.where(p.flip[:, None, None], columns.flip(1), columns)
        x = image.separable(x.to(torch.float32) / 255, rows, columns)
        if self.jitter_prob > 0:
            x = image.color_jitter(x, p.brightness, p.contrast, p.saturation, p.hue, p.order)
        if self.grayscale > 0:
            x = torch.where(p.gray[:, None, None, None], image.grayscale(x), x)
        if self.blur > 0:
            x = image.separable(
                x,
                image.blur_matrix(p.sigma, height, self.blur_kernel),
                image.blur_matrix(p.sigma, width, self.blur_kernel),
            )
        return x
