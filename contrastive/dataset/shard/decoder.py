"""Decode bytes as `folder/decode.py` does, to the same bits, and faster where torchcodec is installed."""

import io
from collections.abc import Callable
from functools import cache

import numpy as np
import PIL
from PIL import Image
from torch import Tensor

from contrastive.dataset.folder.decode import FORMATS, Pixels, decode, refusal, resize_and_crop

ORIENTATION = 0x0112  # the EXIF tag by which torchcodec turns an image and Pillow does not
Decoder = Callable[[bytes], Tensor]  # the bytes of a JPEG → (3, H, W) uint8


@cache
def jpeg_decoder() -> tuple[str, Decoder | None]:
    """The name and version of what decodes JPEGs, and torchcodec's function if it is that."""
    try:
        import torchcodec
        from torchcodec.decoders import decode_jpeg
    except (ImportError, OSError, RuntimeError):  # not there, before 0.16, or built for another torch
        return f"Pillow {PIL.__version__}", None
    return f"torchcodec {torchcodec.__version__}", decode_jpeg


def decode_bytes(raw: bytes, size: int) -> Pixels | str:
    """Pixels (3, size, size) of the bytes of an image file, or the reason why they cannot be read."""
    fast = jpeg_decoder()[1]
    if fast is not None and raw.startswith(b"\xff\xd8"):
        try:
            with Image.open(io.BytesIO(raw), formats=["JPEG"]) as opened:  # the header alone
                is_plain = opened.mode in ("RGB", "L") and ORIENTATION not in opened.getexif()
                if is_plain and not refusal(opened, size):
                    picture = Image.fromarray(fast(raw).permute(1, 2, 0).numpy())
                    return np.asarray(resize_and_crop(picture, size)).transpose(2, 0, 1)
        except Exception:  # decoders raise errors of many kinds; Pillow decides whether the image can be read
            pass
    return decode(io.BytesIO(raw), size)


def header_fault(raw: bytes) -> str | None:
    """Why bytes are no image, or not one that shall be decoded, by their header alone."""
    try:
        with Image.open(io.BytesIO(raw), formats=FORMATS) as opened:
            return refusal(opened, 1)
    except Exception as error:  # decoders raise errors of many kinds for files that are damaged
        return " ".join(str(error).split()) or type(error).__name__
