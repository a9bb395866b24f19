"""From the bytes of an image to its pixels (K, size, size): RGB of 8 bits, gray, of 16 bits, or of many bands."""

from collections import Counter
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from contrastive.dataset.folder.decode import (
    FORMATS,
    GRAY_MADE_DEEP,
    MAX_PIXELS,
    is_gray_16,
    refusal,
    resize_and_crop,
    shrink,
    to_rgb,
    upright,
    whole_rgb,
)
from contrastive.errors import ConfigError
from contrastive.files import read_bytes

Array = npt.NDArray[Any]
LOOKED_AT = 64  # files whose kind is taken for that of all
MAX_CHANNELS = 64  # more at the end of an array's shape are rows or columns
ARRAY, TIFF = b"\x93NUMPY", (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")  # what files begin with


class Kind(NamedTuple):
    """How many channels images have, and uint8 or uint16."""

    channels: int
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        return f"{self.channels} x {8 * self.dtype.itemsize} bits"


RGB_8 = Kind(3, np.dtype(np.uint8))
GRAY_8 = Kind(1, np.dtype(np.uint8))
GRAY_16 = Kind(1, np.dtype(np.uint16))


def common_kind(paths: Sequence[Path], channels: int | None) -> Kind:
    """The kind of the images in these files, by a look at the headers of 64 of them.

    Images that Pillow reads with 8 bits count as RGB whatever their mode, unless `channels` is 1. Where some are of
    this kind all are, and 16-bit gray is scaled to it, or with `channels=1` they to that; else the most common kind is
    that of all.

    Args:
        channels: of every image; None = as the files have it.

    Raises:
        ConfigError: the files have another number of channels, and not one that converts: RGB and gray do.
    """
    step = max(1, len(paths) // LOOKED_AT)
    some = (read_bytes(path) for path in paths[::step][:LOOKED_AT])
    found = Counter(kind for raw in some if (kind := _kind(raw, channels)) is not None)
    kind = RGB_8 if RGB_8 in found or not found else found.most_common(1)[0][0]
    if channels == 1 and kind == RGB_8 and GRAY_16 in found:
        return GRAY_16
    if channels is None or channels == kind.channels:
        return kind
    if (channels, kind) == (1, RGB_8):
        return Kind(1, kind.dtype)
    if channels == 3 and kind.channels == 1:
        return RGB_8
    raise ConfigError(f"dataset.channels={channels}, and the images have {kind}: try dataset.channels=null")


def _kind(raw: bytes, channels: int | None) -> Kind | None:
    """The kind of one image; None for one that cannot be read. A TIFF whose bands are asked for is not Pillow's."""
    is_tiff = raw.startswith(TIFF)
    try:
        if not raw.startswith(ARRAY) and not (is_tiff and channels not in (None, 1, 3)):
            try:
                with Image.open(BytesIO(raw), formats=FORMATS) as opened:
                    return GRAY_16 if is_gray_16(opened) else RGB_8
            except Exception:
                if not is_tiff:
                    raise
        array = _read_array(raw)
        return Kind(*_dimensions(array)[:1], array.dtype)
    except ConfigError:
        raise
    except Exception:  # decoders raise errors of many kinds; a file is named with its fault where all are decoded
        return None


def decode(
    raw: bytes,
    size: int,
    kind: Kind = RGB_8,
    *,
    frame: int | None = None,
    seen: list[str] | None = None,
) -> Array | str:
    """Pixels (K, size, size) of one image by its bytes, or the reason why they cannot be read.

    The image is turned as its EXIF orientation says; an image of 8 bits becomes RGB, transparency is put on black. The
    shorter side is resized to `size`, the center cropped. With `frame` it becomes RGB and stays whole, (3, height,
    width): its longer side is shrunk to `frame` if it is longer.

    Args:
        seen: as in `whole_rgb`.
    """
    try:
        if kind != RGB_8 or raw.startswith(ARRAY):
            return bands(raw, size, kind, seen=seen)
        with Image.open(BytesIO(raw), formats=FORMATS) as opened:
            whole = whole_rgb(opened, size, seen)
            picture = resize_and_crop(whole, size) if frame is None else shrink(whole, frame)
        return np.asarray(picture).transpose(2, 0, 1)
    except UnidentifiedImageError:  # whose own words end in a place in memory
        return "cannot identify image file"
    except Exception as error:  # decoders raise errors of many kinds for files that are damaged
        return " ".join(str(error).split()) or type(error).__name__


def bands(
    image: str | Path | bytes | Image.Image | Array,
    size: int | None,
    kind: Kind,
    *,
    seen: list[str] | None = None,
) -> Array:
    """Pixels (K, size, size) of one image, of the kind that is asked for: the shorter side resized, the center cropped.

    Args:
        image: a file or its bytes, a picture, or an array (h, w), (h, w, K) or (K, h, w).
        size: side in pixels; None = as it is.
        seen: as in `whole_rgb`.

    Raises:
        ValueError: the image is of another kind, or too large.
        OSError: the file cannot be read.
    """
    array = image if isinstance(image, np.ndarray) else _read(image, kind, seen)
    channels, array = _dimensions(array)
    if Kind(channels, array.dtype) != kind:
        raise ValueError(f"the image has {Kind(channels, array.dtype)}, and {kind} are expected")
    height, width = array.shape[1:]
    resized = 0 if size is None else size * size * max(height, width) // max(1, min(height, width))
    if max(height * width, resized) * channels > 3 * MAX_PIXELS:
        raise ValueError(f"{width} x {height} pixels of {channels} channels are more than would fit in memory")
    if size is None or (height, width) == (size, size):
        return np.ascontiguousarray(array)
    planes = [np.asarray(resize_and_crop(Image.fromarray(plane.astype(np.float32)), size)) for plane in array]
    return np.stack(planes).round().astype(array.dtype)


def _read(image: str | Path | bytes | Image.Image, kind: Kind, seen: list[str] | None) -> Array:
    """(h, w) or (h, w, K) of a picture or a file; one of 8 bits becomes gray where gray is asked for."""
    if isinstance(image, Image.Image):
        picture = upright(image, seen)
        if is_gray_16(image) and kind.dtype == np.uint16:
            return np.asarray(picture).astype(np.uint16)
        rgb = to_rgb(picture, seen)
        if kind.channels != 1:
            return np.asarray(rgb)
        gray = np.asarray(rgb.convert("L"))
        if kind.dtype == np.uint8:
            return gray
        if seen is not None:
            seen.append(GRAY_MADE_DEEP)
        return gray.astype(np.uint16) * 257
    raw = image if isinstance(image, bytes) else Path(image).read_bytes()
    if raw.startswith(ARRAY) or (raw.startswith(TIFF) and kind.channels not in (1, 3)):
        return _read_array(raw)
    with Image.open(BytesIO(raw), formats=FORMATS) as opened:
        if fault := refusal(opened, 1):
            raise ValueError(fault)
        return _read(opened, kind, seen)


def _read_array(raw: bytes) -> Array:
    """An array of numpy, or a TIFF of any number of bands, as Pillow does not read it."""
    if raw.startswith(ARRAY):
        return np.asarray(np.load(BytesIO(raw), allow_pickle=False))
    try:
        import tifffile
    except ImportError as error:
        raise ConfigError("a TIFF has bands that Pillow does not read: try pip install tifffile") from error
    return np.asarray(tifffile.imread(BytesIO(raw)))


def _dimensions(array: Array) -> tuple[int, Array]:
    """The number of channels, and the array as (K, h, w): channels are the shorter one of its first and last axis."""
    if array.dtype not in (np.uint8, np.uint16):
        raise ValueError(f"its values are {array.dtype}: save them as uint8 or uint16")
    if array.ndim == 2:
        return 1, array[None]
    if array.ndim != 3 or min(array.shape[0], array.shape[2]) > MAX_CHANNELS:
        raise ValueError(f"its shape is {array.shape}: save it as (height, width) or (height, width, channels)")
    array = np.moveaxis(array, channel_axis(array.shape), 0)
    return len(array), array


def channel_axis(shape: Sequence[int]) -> int:
    """Which of the three axes of an image are its channels: the shorter one of the first and the last."""
    return 2 if shape[2] <= shape[0] else 0
