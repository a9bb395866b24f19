"""From an image file to pixels, or to the reason why it cannot be read."""

from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from contrastive.errors import ConfigError, check_at_least

Pixels = npt.NDArray[np.uint8]
MAX_PIXELS = 2**27  # of an image, as stored and once its shorter side is resized: 400 MB in RGB
# Never EPS, for one: Pillow would start Ghostscript on it, whatever the file is called.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP")


def check_frame(frame: int | None, size: int, *, packed: bool | str = True) -> None:
    """Raise ConfigError for a frame that is smaller than the images of an evaluation, or of images that are decoded."""
    if frame is None:
        return
    check_at_least("dataset.frame", frame, size, example=max(512, size))
    if packed is False:
        raise ConfigError("dataset.frame keeps images whole, which decoded ones are not: try dataset.packed=true")


def decode(path: Path | BytesIO, size: int, frame: int | None = None) -> Pixels | str:
    """Pixels (3, size, size) of one image, a file or its bytes, or the reason why the file cannot be read.

    The image becomes RGB, transparency is put on black, the shorter side is resized to `size`, the center cropped. With
    `frame` it stays whole, (3, height, width): its longer side is shrunk to `frame` if it is longer.
    """
    try:
        with Image.open(path, formats=FORMATS) as opened:
            if fault := refusal(opened, size):
                return fault
            picture = resize_and_crop(to_rgb(opened), size) if frame is None else shrink(to_rgb(opened), frame)
    except Exception as error:  # decoders raise errors of many kinds for files that are damaged
        return " ".join(str(error).split()) or type(error).__name__
    return np.asarray(picture).transpose(2, 0, 1)


def refusal(opened: Image.Image, size: int) -> str | None:
    """Why an image shall not be decoded, from its header alone."""
    if opened.mode in ("I", "F"):
        return f"mode {opened.mode} has no fixed range: save it with 8 or 16 bits"
    width, height = opened.size
    resized = size * size * max(width, height) // max(1, min(width, height))
    if max(width * height, resized) > MAX_PIXELS:
        return f"{width} x {height} pixels are more than would fit in memory"
    return None


def to_rgb(opened: Image.Image) -> Image.Image:
    """The image in RGB, 16 bits scaled to 8, transparency on black."""
    picture = opened
    if opened.mode.startswith("I;16"):  # PIL would clip these to white
        picture = Image.fromarray((np.asarray(opened) // 257).astype(np.uint8))
    elif "A" in opened.getbands() or "transparency" in opened.info:
        picture = opened.convert("RGBA")
    if picture.mode == "RGBA":
        black = Image.new("RGBA", picture.size, (0, 0, 0, 255))
        picture = Image.alpha_composite(black, picture)
    return picture.convert("RGB")


def resize_and_crop(picture: Image.Image, size: int) -> Image.Image:
    """The shorter side resized to `size`, the center cropped."""
    width, height = picture.size
    if (width, height) == (size, size):
        return picture
    scale = size / min(width, height)
    width, height = max(size, round(width * scale)), max(size, round(height * scale))
    picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    left, top = (width - size) // 2, (height - size) // 2
    return picture.crop((left, top, left + size, top + size))


def shrink(picture: Image.Image, side: int) -> Image.Image:
    """The whole picture, its longer side at most `side` pixels."""
    scale = side / max(picture.size)
    if scale >= 1:
        return picture
    width, height = (max(1, round(scale * pixels)) for pixels in picture.size)
    return picture.resize((width, height), Image.Resampling.BILINEAR)
