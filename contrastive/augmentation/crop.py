"""Crops: random resized crop, and random crop of a padded image."""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from contrastive.augmentation.base import (
    Operation,
    Parameters,
    Side,
    bernoulli,
    check_probability,
    check_range,
    separable,
)

TRIES = 10  # boxes drawn for an image before the largest central one is taken, as torchvision


@dataclass(kw_only=True)
class RandomResizedCrop(Operation):
    """Crop a box of random area and aspect ratio, resize it bilinearly and flip it (torchvision's RandomResizedCrop).

    Crop, resizing and flip are one linear map of the rows and one of the columns, so the flip costs nothing. Where a
    crop shrinks, all its pixels are averaged, as PIL does by default.

    Args:
        size: side of the result in pixels; None = the side of the image or, with `dataset.frame`, `dataset.size`.
        scale: (least, most) share of the area, within (0, 1].
        ratio: (least, most) width / height, above 0.
        flip: probability of a horizontal flip.
    """

    size: int | None = None
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5

    def __post_init__(self) -> None:
        self.scale = check_range("crop.scale", self.scale, most=1.0, example="[0.08,1]")
        self.ratio = check_range("crop.ratio", self.ratio, most=math.inf, example="[0.75,1.3333]")
        check_probability("crop.flip", self.flip)

    def draw(self, n: int, height: Side, width: Side, generator: Generator) -> Parameters:
        """Boxes (top, left, height, width) in pixels as torchvision draws them, and flips.

        Row i of what the generator gives is that of image i, whatever the sizes of the others.
        """
        rand = torch.rand(4, n, TRIES, generator=generator, device=generator.device)
        tall, wide = (side[:, None] if isinstance(side, Tensor) else side for side in (height, width))  # beside tries
        area = tall * wide * (self.scale[0] + rand[0] * (self.scale[1] - self.scale[0]))
        low, high = (math.log(r) for r in self.ratio)
        ratio = torch.exp(low + rand[1] * (high - low))
        w, h = (area * ratio).sqrt().round(), (area / ratio).sqrt().round()
        fits = (w > 0) & (w <= wide) & (h > 0) & (h <= tall)
        first = fits.to(torch.uint8).argmax(1, keepdim=True)
        w, h, rand_y, rand_x = (value.gather(1, first).squeeze(1) for value in (w, h, rand[2], rand[3]))
        central_h, central_w = self._central(height, width)
        fitted = fits.any(1)
        return {
            "top": torch.where(fitted, (rand_y * (height - h + 1)).floor(), (height - central_h) // 2),
            "left": torch.where(fitted, (rand_x * (width - w + 1)).floor(), (width - central_w) // 2),
            "height": torch.where(fitted, h, central_h),
            "width": torch.where(fitted, w, central_w),
            "flip": bernoulli(n, self.flip, generator),
        }

    def _central(self, height: Side, width: Side) -> tuple[Side, Side]:
        """Height and width of the largest box whose aspect ratio is allowed."""
        least, most = self.ratio
        if isinstance(height, int) and isinstance(width, int):
            return min(height, round(width / least)), min(width, round(height * most))
        height, width = torch.as_tensor(height), torch.as_tensor(width)
        return torch.minimum(height, (width / least).round()), torch.minimum(width, (height * most).round())

    def apply(self, x: Tensor, parameters: Parameters) -> Tensor:
        n_rows, n_columns = x.shape[-2:]
        height, width = self.output_size(n_rows, n_columns)
        top, left, box_height, box_width, flip = (parameters[k] for k in ("top", "left", "height", "width", "flip"))
        rows = resize_matrix(top, box_height, n_rows, height)
        columns = resize_matrix(left, box_width, n_columns, width)
        return separable(x, rows, flip_rows(columns, flip))

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return self.size or height, self.size or width


@dataclass(kw_only=True)
class RandomCrop(Operation):
    """Pad with black, crop at a random place and flip (torchvision's RandomCrop(size, padding)).

    Args:
        size: side of the result in pixels; None = the side of the image.
        padding: black pixels added on every side, at least 0.
        flip: probability of a horizontal flip.
    """

    size: int | None = None
    padding: int = 4
    flip: float = 0.5

    def __post_init__(self) -> None:
        check_probability("crop.flip", self.flip)

    def draw(self, n: int, height: int, width: int, generator: Generator) -> Parameters:
        """Top left corners in the padded image, int64, and flips."""
        sides = zip((height, width), self.output_size(height, width), strict=True)
        places = [side + 2 * self.padding - crop + 1 for side, crop in sides]
        top, left = (torch.randint(k, (n,), generator=generator, device=generator.device) for k in places)
        return {"top": top, "left": left, "flip": bernoulli(n, self.flip, generator)}

    def apply(self, x: Tensor, parameters: Parameters) -> Tensor:
        n_rows, n_columns = x.shape[-2:]
        height, width = self.output_size(n_rows, n_columns)
        rows = shift_matrix(parameters["top"] - self.padding, n_rows, height)
        columns = shift_matrix(parameters["left"] - self.padding, n_columns, width)
        return separable(x, rows, flip_rows(columns, parameters["flip"]))

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return self.size or height, self.size or width


def resize_matrix(start: Tensor, length: Tensor, n_in: int, n_out: int) -> Tensor:
    """Rows that crop [start, start + length) out of n_in pixels and resize it bilinearly to n_out.

    The triangle widens to the scale when shrinking, as PIL's.

    Args:
        start: (B,) float, whole pixels.
        length: (B,) float, whole pixels.

    Returns:
        (B, n_out, n_in); each row sums to 1.
    """
    scale = (length / n_out)[:, None, None]
    pixel = torch.arange(n_in, device=start.device, dtype=torch.float32)[None, None] - start[:, None, None]
    center = scale * (torch.arange(n_out, device=start.device, dtype=torch.float32)[None, :, None] + 0.5)
    last = length[:, None, None] - 1
    weight = (1 - (pixel + 0.5 - center).abs() / scale.clamp(min=1)).clamp(min=0)
    weight = weight * ((pixel >= 0) & (pixel <= last))
    return weight / weight.sum(-1, keepdim=True)


def shift_matrix(start: Tensor, n_in: int, n_out: int) -> Tensor:
    """(B, n_out, n_in): rows that copy the pixels start, start + 1, ...; pixels outside the image are 0.

    Args:
        start: (B,) int64, may be negative.
    """
    pixel = torch.arange(n_in, device=start.device)
    source = start[:, None] + torch.arange(n_out, device=start.device)
    return (source[:, :, None] == pixel).to(torch.float32)


def flip_rows(matrix: Tensor, flip: Tensor) -> Tensor:
    """Reverse the order of the rows of those (B, n_out, n_in) matrices whose flip (B,) is true."""
    return torch.where(flip[:, None, None], matrix.flip(1), matrix)
