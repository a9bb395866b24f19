"""From a picture that Pillow opens to RGB: upright, without transparency, resized."""

import numpy as np
from PIL import Image
from PIL.ImageFile import ImageFile
from PIL.TiffImagePlugin import TiffImageFile

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


def whole_rgb(opened: Image.Image, size: int, seen: list[str] | None = None) -> Image.Image:
    """The whole image in RGB, upright; raises ValueError for one that is refused.

    Args:
        size: that it will be resized to.
        seen: gets what the pixels do not tell of the file, such as `TURNED`, a text for each.
    """
    if fault := refusal(opened, size):
        raise ValueError(fault)
    return to_rgb(upright(opened, seen), seen)


def refusal(opened: Image.Image, size: int) -> str | None:
    """Why an image shall not be decoded, from its header alone."""
    if opened.mode in ("I", "F") and not is_gray_16(opened):
        return f"mode {opened.mode} has no fixed range: save it with 8 or 16 bits, as {WITH_A_RANGE[opened.mode]}"
    width, height = opened.size
    resized = size * size * max(width, height) // max(1, min(width, height))
    if max(width * height, resized) > MAX_PIXELS:
        return f"{width} x {height} pixels are more than would fit in memory"
    return None


def upright(opened: Image.Image, seen: list[str] | None = None) -> Image.Image:
    """The image turned as its EXIF orientation says; it is loaded."""
    found = [] if seen is None else seen
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


def to_rgb(opened: Image.Image, seen: list[str] | None = None) -> Image.Image:
    """The image in RGB, 16 bits scaled to 8, transparency on black; `seen` as in `whole_rgb`."""
    picture, found = opened, [] if seen is None else seen
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
