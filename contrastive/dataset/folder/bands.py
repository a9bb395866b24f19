"""Images that are not RGB with 8 bits: gray, of 16 bits, or of many bands, from files and arrays to (K, size, size)."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from contrastive.dataset.folder.decode import (
    FORMATS,
    GRAY_MADE_DEEP,
    MAX_PIXELS,
    is_gray_16,
    refusal,
    resize_and_crop,
    to_rgb,
    upright,
)
from contrastive.errors import ConfigError

Array = npt.NDArray[Any]
LOOKED_AT = 64  # files whose kind is taken for that of all
MAX_CHANNELS = 64  # more at the end of an array's shape are rows or columns
TIFF = (".tif", ".tiff")


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
    found = Counter(kind for path in paths[::step][:LOOKED_AT] if (kind := _kind(path, channels)) is not None)
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


def _kind(path: Path, channels: int | None) -> Kind | None:
    """The kind of one image; None for a file that cannot be read. A TIFF whose bands are asked for is not Pillow's."""
    try:
        if path.suffix.lower() == ".npy":
            return _kind_of(np.load(path, mmap_mode="r", allow_pickle=False))
        if path.suffix.lower() in TIFF and channels not in (None, 1, 3):
            return _kind_of(_read_tiff(path))
        try:
            with Image.open(path, formats=FORMATS) as opened:
                return GRAY_16 if is_gray_16(opened) else RGB_8
        except Exception:
            if path.suffix.lower() not in TIFF:
                raise
            return _kind_of(_read_tiff(path))
    except ConfigError:
        raise
    except Exception:  # decoders raise errors of many kinds; a file is named with its fault where all are decoded
        return None


def _kind_of(array: Array) -> Kind:
    return Kind(*_dimensions(array)[:1], array.dtype)


def bands(
    image: str | Path | Image.Image | Array,
    size: int | None,
    kind: Kind,
    *,
    orientation: bool = True,
    seen: list[str] | None = None,
) -> Array:
    """Pixels (K, size, size) of one image, of the kind that is asked for: the shorter side resized, the center cropped.

    Args:
        image: a file, a picture, or an array (h, w), (h, w, K) or (K, h, w).
        size: side in pixels; None = as it is.
        orientation: as in `decode`.
        seen: as in `decode`.

    Raises:
        ValueError: the image is of another kind, or too large.
        OSError: the file cannot be read.
    """
    array = image if isinstance(image, np.ndarray) else _read(image, kind, orientation, seen)
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


def _read(image: str | Path | Image.Image, kind: Kind, orientation: bool, seen: list[str] | None) -> Array:
    """(h, w) or (h, w, K) of a picture or a file; one of 8 bits becomes gray where gray is asked for."""
    if isinstance(image, Image.Image):
        picture = upright(image, orientation=orientation, seen=seen)
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
    path = Path(image)
    if path.suffix.lower() == ".npy":
        return np.asarray(np.load(path, allow_pickle=False))
    if path.suffix.lower() in TIFF and kind.channels not in (1, 3):
        return _read_tiff(path)
    with Image.open(path, formats=FORMATS) as opened:
        if fault := refusal(opened, 1):
            raise ValueError(fault)
        return _read(opened, kind, orientation, seen)


def _read_tiff(path: Path) -> Array:
    """A TIFF of any number of bands, as Pillow does not read it."""
    try:
        import tifffile
    except ImportError as error:
        raise ConfigError(f"{path} has bands that Pillow does not read: try pip install tifffile") from error
    return np.asarray(tifffile.imread(path))


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
