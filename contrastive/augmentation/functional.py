"""Batched image operations: every image of the batch has its own parameters.

Images are float (B, K, H, W) in [0, 1]. Given the same parameters each equals torchvision's functional on one image.
Resizing and blurring are separable linear maps, so an image is A X Bᵀ with two small matrices of its own: that is
exact, needs no gather, and runs as batched matrix products on the CPU and the GPU alike.
"""

import torch
from torch import Tensor

GRAY = (0.2989, 0.587, 0.114)  # ITU-R 601-2 luma, as torchvision


def resize_matrix(start: Tensor, length: Tensor, n_in: int, n_out: int, *, antialias: bool) -> Tensor:
    """Rows that crop [start, start + length) out of n_in pixels and resize it bilinearly to n_out.

    Args:
        start: (B,) float, whole pixels.
        length: (B,) float, whole pixels.
        antialias: widen the triangle to the scale when shrinking, as PIL does; without it shrinking skips pixels.

    Returns:
        (B, n_out, n_in); each row sums to 1.
    """
    scale = (length / n_out)[:, None, None]
    pixel = torch.arange(n_in, device=start.device, dtype=torch.float32)[None, None] - start[:, None, None]
    center = scale * (torch.arange(n_out, device=start.device, dtype=torch.float32)[None, :, None] + 0.5)
    last = length[:, None, None] - 1
    if antialias:
        weight = (1 - (pixel + 0.5 - center).abs() / scale.clamp(min=1)).clamp(min=0)
    else:
        weight = (1 - (pixel - torch.minimum((center - 0.5).clamp(min=0), last)).abs()).clamp(min=0)
    weight = weight * ((pixel >= 0) & (pixel <= last))
    return weight / weight.sum(-1, keepdim=True)


def blur_matrix(sigma: Tensor, n: int, kernel_size: int) -> Tensor:
    """(B, n, n): Gaussian blur of n pixels with reflected borders; sigma (B,), 0 leaves the image as it is."""
    radius = kernel_size // 2
    tap = torch.arange(-radius, radius + 1, device=sigma.device)
    weight = torch.exp(-0.5 * (tap / sigma.clamp(min=1e-3)[:, None]) ** 2)
    weight = weight / weight.sum(-1, keepdim=True)
    source = (torch.arange(n, device=sigma.device) + tap[:, None]).abs()  # reflected at the left border ...
    source = (n - 1) - ((n - 1) - source).abs()  # ... and at the right one
    shift = torch.nn.functional.one_hot(source, n).to(weight.dtype)  # (kernel_size, n, n)
    return torch.einsum("bt,tij->bij", weight, shift)


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


def separable(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """rows · x · columnsᵀ for every channel: x (B, C, H, W), rows (B, h, H), columns (B, w, W) → (B, C, h, w)."""
    b, c, height, width = x.shape
    x = torch.bmm(x.reshape(b, c * height, width), columns.mT).view(b, c, height, -1)
    return torch.matmul(rows[:, None], x)


def blur_uint8(x: Tensor) -> Tensor:
    """uint8 or uint16 (B, K, H, W), blurred by a Gaussian of 2 pixels over a tenth of the side (3 pixels at 32)."""
    height, width = x.shape[-2:]
    sigma = torch.full((len(x),), 2.0, device=x.device)
    rows, columns = (blur_matrix(sigma, n, 2 * max(1, n // 20) + 1) for n in (height, width))
    return separable(x.float(), rows, columns).round().to(x.dtype)


def grayscale(x: Tensor) -> Tensor:
    """(B, 1, H, W) luma."""
    return (GRAY[0] * x[:, :1]).add_(x[:, 1:2], alpha=GRAY[1]).add_(x[:, 2:3], alpha=GRAY[2])


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


def rotate(x: Tensor, angle: Tensor) -> Tensor:
    """Rotate images by angle (B,) degrees counterclockwise about the center; nearest pixel, black outside."""
    height, width = x.shape[-2:]
    exact = (
        angle if x.device.type == "mps" else angle.double()
    )  # as torchvision's, or other pixels would be the nearest
    cos, sin = exact.deg2rad().cos().float(), exact.deg2rad().sin().float()
    theta = torch.stack([cos / (width / 2), sin / (height / 2), -sin / (width / 2), cos / (height / 2)], 1)
    column = torch.arange(width, device=x.device, dtype=torch.float32) - (width - 1) / 2
    row = torch.arange(height, device=x.device, dtype=torch.float32) - (height - 1) / 2
    place = torch.stack(torch.meshgrid(column, row, indexing="xy"), -1).view(1, height * width, 2)
    grid = torch.matmul(place, theta.view(-1, 2, 2)).view(-1, height, width, 2)
    return torch.nn.functional.grid_sample(x, grid, mode="nearest", padding_mode="zeros", align_corners=False)
