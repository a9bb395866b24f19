"""From an image to its pixels (K, size, size): RGB of 8 bits, gray, of 16 bits, or of many bands."""

from collections import Counter
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError
from PIL.ImageFile import ImageFile
from PIL.TiffImagePlugin import TiffImageFile

from contrastive.errors import ConfigError

Array = npt.NDArray[Any]
LOOKED_AT = 64  # files whose kind is taken for that of all
MAX_CHANNELS = 64  # more at the end of an array's shape are rows or columns
ARRAY, TIFF = b"\x93NUMPY", (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")  # what files begin with
MAX_PIXELS = 2**27  # of an image, as stored and once its shorter side is resized: 400 MB in RGB
# Never EPS, for one: Pillow would start Ghostscript on it, whatever the file is called.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
PAGED = ("GIF", "PNG", "TIFF", "WEBP")
WITH_A_RANGE = {  # of whole numbers with a sign or of 32 bits, and of fractions
    "I": "np.clip(x + 1024, 0, 4095).astype(np.uint16) does for CT",
    "F": "(65_535 * x).astype(np.uint16) does for values from 0 to 1",
}
ORIENTATION, SAMPLES_PER_PIXEL, EXTRA_SAMPLES = 0x112, 0x115, 0x152  # tags of EXIF and TIFF
TRANSPOSES = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
TURNED = "turned upright, as their EXIF orientation says"
DEEP_MADE_RGB = "16-bit gray made RGB of 8 bits"
KEEP_DEPTH = "dataset.channels=1 of a folder keeps 16 bits, as leaving out those of 8 bits does"
GRAY_MADE_DEEP = "of 8 bits, scaled to gray of 16"
DEEP_COLOR = "color of 16 bits, of which the upper 8 are kept: .npy keeps all"
PREMULTIPLIED = "last band is tagged as premultiplied transparency and is none: try dataset.channels=4"
FIRST_PAGE = "the first page or frame of"
FURTHER_BANDS = "left out: dataset.channels=N of a folder keeps N bands"
NO_TRANSPARENCY = f"with a last band that is tagged as transparency and is none; it is {FURTHER_BANDS}"


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
    some = (path.read_bytes() for path in paths[::step][:LOOKED_AT])
    found = Counter(kind for raw in some if (kind := _kind(raw, channels)) is not None)
    kind = RGB_8 if RGB_8 in found or not found else found.most_common(1)[0][0]
    if channels is None or channels == kind.channels:
        return kind
    if (channels, kind) == (1, RGB_8):
        return GRAY_16 if GRAY_16 in found else GRAY_8
    if channels == 3 and kind.channels == 1:
        return RGB_8
    raise ConfigError(f"dataset.channels={channels}, and the images have {kind}: try dataset.channels=null")


def _kind(raw: bytes, channels: int | None) -> Kind | None:
    """The kind of one image; None for one that cannot be read."""
    try:
        opened = _opened(raw, channels)
        if isinstance(opened, Image.Image):
            return GRAY_16 if is_gray_16(opened) else RGB_8
        return Kind(len(_planes(opened)), opened.dtype)
    except ConfigError:  # a package that reads such files is missing
        raise
    except Exception:  # decoders raise errors of many kinds; a file is named with its fault where all are decoded
        return None


def decode(
    raw: bytes, size: int, kind: Kind = RGB_8, *, frame: int | None = None, seen: list[str] | None = None
) -> Array | str:
    """The `pixels` of one image by its bytes, or the reason why they cannot be read."""
    try:
        return pixels(raw, size, kind, frame=frame, seen=seen)
    except UnidentifiedImageError:  # whose own words end in a place in memory
        return "cannot identify image file"
    except Exception as error:  # decoders raise errors of many kinds for files that are damaged
        return " ".join(str(error).split()) or type(error).__name__


def pixels(
    image: str | Path | bytes | Image.Image | Array,
    size: int | None,
    kind: Kind = RGB_8,
    *,
    frame: int | None = None,
    seen: list[str] | None = None,
) -> Array:
    """Pixels (K, size, size) of one image, of the kind that is asked for: the shorter side resized, the center cropped.

    The image is turned as its EXIF orientation says. One of 8 bits becomes RGB, with transparency on black, or gray
    where that is asked for.

    Args:
        image: a file or its bytes, a picture, or an array (h, w), (h, w, K) or (K, h, w).
        size: side in pixels; None = as it is.
        frame: of RGB: the image stays whole, (3, height, width), its longer side shrunk to `frame` if it is longer.
        seen: gets what the pixels do not tell of the file, such as `TURNED`, a text for each.

    Raises:
        ValueError: the image is of another kind, or too large.
        OSError: the file cannot be read.
    """
    raw = Path(image).read_bytes() if isinstance(image, str | Path) else image
    opened = _opened(raw, kind.channels) if isinstance(raw, bytes) else raw
    found = [] if seen is None else seen
    if isinstance(opened, np.ndarray):
        return _resized(opened, size, kind)
    if opened.mode in ("I", "F") and not is_gray_16(opened):
        how = WITH_A_RANGE[opened.mode]
        raise ValueError(f"mode {opened.mode} has no fixed range: save it with 8 or 16 bits, as {how}")
    _check_fits(*opened.size, size)
    picture = _upright(opened, found)
    if is_gray_16(opened) and kind.dtype == np.uint16:
        return _resized(np.asarray(picture).astype(np.uint16), size, kind)
    rgb = _rgb(picture, found)
    if kind == RGB_8:
        whole = rgb if size is None else _shrunk(rgb, frame) if frame else _cropped(rgb, size)
        return np.asarray(whole).transpose(2, 0, 1)
    if kind.channels != 1:
        return _resized(np.asarray(rgb), size, kind)
    gray = np.asarray(rgb.convert("L"))
    if kind.dtype == np.uint16:
        found.append(GRAY_MADE_DEEP)
        gray = gray.astype(np.uint16) * 257
    return _resized(gray, size, kind)


def _opened(raw: bytes, channels: int | None) -> Image.Image | Array:
    """The picture or, of numpy's format and a TIFF of bands that are asked for or that Pillow does not read, an
    array."""
    if raw.startswith(ARRAY):
        return np.asarray(np.load(BytesIO(raw), allow_pickle=False))
    is_tiff = raw.startswith(TIFF)
    if not is_tiff or channels in (None, 1, 3):
        try:
            return Image.open(BytesIO(raw), formats=FORMATS)
        except UnidentifiedImageError:
            if not is_tiff:
                raise
    try:
        import tifffile
    except ImportError as error:
        raise ConfigError("a TIFF has bands that Pillow does not read: try pip install tifffile") from error
    return np.asarray(tifffile.imread(BytesIO(raw)))


def _resized(array: Array, size: int | None, kind: Kind) -> Array:
    """Resized and cropped band by band."""
    planes = _planes(array)
    if (found := Kind(len(planes), planes.dtype)) != kind:
        raise ValueError(f"the image has {found}, and {kind} are expected")
    height, width = planes.shape[1:]
    _check_fits(width, height, size, len(planes))
    if size is None or (height, width) == (size, size):
        return np.ascontiguousarray(planes)
    resized = [np.asarray(_cropped(Image.fromarray(plane.astype(np.float32)), size)) for plane in planes]
    return np.stack(resized).round().astype(planes.dtype)


def _planes(array: Array) -> Array:
    """The array as (K, h, w)."""
    if array.dtype not in (np.uint8, np.uint16):
        raise ValueError(f"its values are {array.dtype}: save them as uint8 or uint16")
    if array.ndim == 2:
        return array[None]
    if array.ndim != 3 or min(array.shape[0], array.shape[2]) > MAX_CHANNELS:
        raise ValueError(f"its shape is {array.shape}: save it as (height, width) or (height, width, channels)")
    return np.moveaxis(array, channel_axis(array.shape), 0)


def channel_axis(shape: Sequence[int]) -> int:
    """Which of the three axes of an image are its channels: the shorter one of the first and the last."""
    return 2 if shape[2] <= shape[0] else 0


def _check_fits(width: int, height: int, size: int | None, channels: int = 3) -> None:
    """Refuse an image that is too large, as stored or once its shorter side is resized."""
    resized = 0 if size is None else size * size * max(height, width) // max(1, min(height, width))
    if max(height * width, resized) * channels > 3 * MAX_PIXELS:
        raise ValueError(f"{width} x {height} pixels of {channels} channels are more than would fit in memory")


def _upright(opened: Image.Image, found: list[str]) -> Image.Image:
    """The image turned as its EXIF orientation says; it is loaded."""
    if _orientation(opened) in TRANSPOSES:
        found.append(TURNED)
    if any(";16" in raw for raw in _raw_modes(opened)) and not is_gray_16(opened):
        found.append(DEEP_COLOR)
    if (pages := _n_pages(opened)) > 1:
        found.append(f"{FIRST_PAGE} {pages}")
    opened.load()  # turns a TIFF, which then has no orientation
    method = TRANSPOSES.get(_orientation(opened))
    return opened if method is None else opened.transpose(method)


def _orientation(opened: Image.Image) -> int:
    try:
        return int(opened.getexif().get(ORIENTATION, 1))
    except Exception:  # metadata that are damaged say nothing about the pixels
        return 1


def _raw_modes(opened: Image.Image) -> list[str]:
    """How the pixels are stored, such as RGB;16B; nothing of an image that is loaded, or comes from no file."""
    if not isinstance(opened, ImageFile):
        return []
    return [str(tile[3] if isinstance(tile[3], str) else next(iter(tile[3] or ()), "")) for tile in opened.tile]


def _n_pages(opened: Image.Image) -> int:
    """Pages or frames of a file; further pictures of a JPEG are previews."""
    try:
        return int(getattr(opened, "n_frames", 1)) if opened.format in PAGED else 1
    except Exception:  # what follows the first page is damaged
        return 1


def is_gray_16(opened: Image.Image) -> bool:
    """Whether an image is gray of 16 bits: Pillow reads a PGM of them as numbers of 32, scaled to 65,535."""
    return opened.mode.startswith("I;16") or (opened.mode == "I" and opened.format == "PPM")


def _rgb(opened: Image.Image, found: list[str]) -> Image.Image:
    """The image in RGB, 16 bits scaled to 8, transparency on black."""
    picture = opened
    if is_gray_16(opened):  # PIL would clip these to white
        gray = np.asarray(opened)
        picture = Image.fromarray((gray // 257).astype(np.uint8))
        bits = max(8, int(gray.max(initial=0)).bit_length())
        found.append(f"{DEEP_MADE_RGB}; values below {2**bits:,} keep {2 ** (bits - 8)} levels: {KEEP_DEPTH}")
    elif "A" in opened.getbands() or "transparency" in opened.info:
        picture = opened.convert("RGBA")
        if opened.format == "TIFF" and not _is_transparency(picture):
            if isinstance(opened, TiffImageFile) and 1 in opened.tag_v2.get(EXTRA_SAMPLES, ()):
                raise ValueError(f"its {PREMULTIPLIED}")
            picture = picture.convert("RGB")
            found.append(NO_TRANSPARENCY)
    if opened.format == "TIFF" and _n_bands(opened) > len(opened.getbands()):
        found.append(f"of {_n_bands(opened)} bands; the last ones are {FURTHER_BANDS}")
    if picture.mode == "RGBA":
        black = Image.new("RGBA", picture.size, (0, 0, 0, 255))
        picture = Image.alpha_composite(black, picture)
    return picture.convert("RGB")


def _is_transparency(picture: Image.Image) -> bool:
    """Whether the last band of a TIFF is mostly 0 or 255: programs tag any fourth band, such as infrared, as alpha."""
    counts = picture.getchannel("A").histogram()
    return 2 * (counts[0] + counts[255]) >= sum(counts)


def _n_bands(opened: Image.Image) -> int:
    """Of a TIFF, those that Pillow does not read included."""
    return int(opened.tag_v2.get(SAMPLES_PER_PIXEL, 1)) if isinstance(opened, TiffImageFile) else 1


def _cropped(picture: Image.Image, size: int) -> Image.Image:
    """The shorter side resized to `size`, the center cropped."""
    width, height = picture.size
    if (width, height) == (size, size):
        return picture
    scale = size / min(width, height)
    width, height = max(size, round(width * scale)), max(size, round(height * scale))
    picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    left, top = (width - size) // 2, (height - size) // 2
    return picture.crop((left, top, left + size, top + size))


def _shrunk(picture: Image.Image, side: int) -> Image.Image:
    """The whole picture, its longer side at most `side` pixels."""
    scale = side / max(picture.size)
    if scale >= 1:
        return picture
    width, height = (max(1, round(scale * pixels)) for pixels in picture.size)
    return picture.resize((width, height), Image.Resampling.BILINEAR)
