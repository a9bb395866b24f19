"""Images inside a page: as data URIs, so that the page stays one file."""

import base64
import io

import torch
from torch import Tensor
from torchvision.transforms.v2.functional import to_pil_image

from contrastive.types import Split, visible

SIDE = 96  # pixels of an image in a page, at most
SHARP = 32  # pixels up to which an image keeps every pixel as it is


def as_uri(image: Tensor, side: int = SIDE, *, like: Tensor | None = None) -> str:
    """A data URI of an image (K, H, W): PNG of a small one, JPEG of others.

    Args:
        image: uint8 or uint16, or float32 in [0, 1].
        side: to which a larger image is reduced, in pixels.
        like: (N, K, H, W), images that are shown beside it, see `visible`: so that one can be seen to be brighter.
    """
    picture = to_pil_image(visible(image[None].cpu(), None if like is None else like.cpu())[0].clamp(0, 1))
    picture.thumbnail((side, side))
    kind, file = "PNG" if max(picture.size) <= SHARP else "JPEG", io.BytesIO()
    picture.save(file, kind, quality=85)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"


def uris(split: Split, rows: Tensor, side: int = SIDE, *, in_common: bool = False) -> list[str]:
    """A data URI of each of these rows (n,) of a split.

    Args:
        in_common: whether black and white are the same in all of them, see `as_uri`.
    """
    if not len(rows):
        return []
    images = split.image[rows.to(split.image.device)]
    return [as_uri(image, side, like=images if in_common else None) for image in images]


def spaced(rows: Tensor, n: int) -> Tensor:
    """At most n of the rows (N,), evenly spaced, the first and the last among them."""
    return rows[torch.linspace(0, len(rows) - 1, min(n, len(rows))).round().long()]
