"""One image file → pixels, or the reason why it cannot be read."""

import fcntl
import hashlib
import json
import math
import os
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor
from tqdm import tqdm

from contrastive.dataset.splits import ChannelStats, channel_stats
from contrastive.files import locked, write_text
from contrastive.run.weights import content_hash

Pixels = npt.NDArray[np.uint8]
MAX_PIXELS = 2**27  # of an image, as stored and once its shorter side is resized: 400 MB in RGB
# Never EPS, for one: Pillow would start Ghostscript on it, whatever the file is called.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP")


def decode(path: Path, size: int) -> Pixels | str:
    """Pixels (3, size, size) of one image, or the reason why the file cannot be read.

    The image becomes RGB, transparency is put on black, the shorter side is resized to `size`, the center cropped.
    """
    try:
        with Image.open(path, formats=FORMATS) as opened:
            if fault := _refusal(opened, size):
                return fault
            picture = resize_and_crop(to_rgb(opened), size)
    except Exception as error:  # decoders raise errors of many kinds for files that are damaged
        return " ".join(str(error).split()) or type(error).__name__
    return np.asarray(picture).transpose(2, 0, 1)


def _refusal(opened: Image.Image, size: int) -> str | None:
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


DAY = 86_400  # seconds
ALWAYS_HASHED = 2**30  # bytes, a second: larger pixel files are read again only where their time of change is another


class DecodedImages(NamedTuple):
    """The readable images of a list of files, mapped from disk."""

    image: Tensor  # (n, 3, size, size) uint8, read-only
    faults: dict[int, str]  # index of each unreadable file in the list, and the reason
    stats: ChannelStats  # mean and standard deviation of `image`, scaled to [0, 1]
    digest: str  # sha256 of `image`


def decode_to_memmap(paths: list[Path], size: int, cache_path: Path) -> DecodedImages:
    """Decode the files, or map the result of an earlier call; one process decodes while others wait.

    Args:
        size: side of the decoded images in pixels.
        cache_path: file for the pixels, ending in .images and named by the content of the files; the faults, the
            statistics and the digest are kept beside it in a .json file.
    """
    record_path = cache_path.with_suffix(".json")
    with locked(cache_path.with_suffix(".lock")):
        remove_leftovers(cache_path.parent)
        record = _read_record(record_path)
        is_whole = record is not None and _is_whole(cache_path, record, shape=(len(paths), 3, size, size))
        if record_path.exists() and not is_whole:
            print(f"warning: {cache_path} or its record is missing or damaged: its images are decoded again")
            record = None
        if record is not None and record["changed"] != cache_path.stat().st_mtime_ns:  # copied, and whole
            record["changed"] = cache_path.stat().st_mtime_ns
            _write_record(record_path, record)
        if record is None:
            faults = _decode_all(paths, size, cache_path)
            image = _map(cache_path, len(paths) - len(faults), size)
            changed = cache_path.stat().st_mtime_ns
            record = {"faults": {str(i): fault for i, fault in faults.items()}, "changed": changed}
            record |= _pixel_facts(image)
            _write_record(record_path, record)  # last: marks the decoding as complete
    faults = {int(i): fault for i, fault in record["faults"].items()}
    image = _map(cache_path, len(paths) - len(faults), size)
    mean, std = record["mean"], record["std"]
    return DecodedImages(image, faults, stats=(tuple(mean), tuple(std)), digest=record["sha256"])


def _read_record(path: Path) -> dict[str, Any] | None:
    """What an earlier decoding left beside its pixels; None if there is none, or a damaged one."""
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    is_whole = isinstance(record, dict) and record.pop("checksum", None) == content_hash(record)
    return record if is_whole else None


def _write_record(path: Path, record: dict[str, Any]) -> None:
    """Write the record with a checksum of its own: a digit of `mean` or `faults` changes every image."""
    plain = json.loads(json.dumps(record))
    write_text(path, json.dumps({**plain, "checksum": content_hash(plain)}))


def _is_whole(cache_path: Path, record: dict[str, Any], *, shape: tuple[int, ...]) -> bool:
    """Whether the pixels are those that were decoded."""
    n = shape[0] - len(record["faults"])
    n_bytes = n * math.prod(shape[1:])
    if not cache_path.is_file() or cache_path.stat().st_size != n_bytes:
        return False
    if n_bytes > ALWAYS_HASHED and cache_path.stat().st_mtime_ns == record.get("changed"):
        return True
    return _hash(_map(cache_path, n, shape[-1])) == str(record["sha256"])


def remove_leftovers(cache: Path) -> None:
    """Remove what killed processes left unfinished: pixels whose lock nobody holds, small files of the day before."""
    for part in cache.glob("*.part"):
        if part.name.startswith("."):
            if time.time() - part.stat().st_mtime > DAY:
                part.unlink(missing_ok=True)
            continue
        with part.with_suffix(".lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # being written
                continue
            part.unlink(missing_ok=True)


def _map(cache_path: Path, n: int, size: int) -> Tensor:
    shape = (n, 3, size, size)
    if n == 0:
        return torch.empty(shape, dtype=torch.uint8)  # an empty file cannot be mapped
    with warnings.catch_warnings(action="ignore"):  # torch has no read-only tensors: writing to this one would crash
        return torch.from_numpy(np.memmap(cache_path, np.uint8, "r", shape=shape))


def _pixel_facts(image: Tensor) -> dict[str, Any]:
    mean, std = channel_stats(image) if len(image) else ((0.0,) * 3, (0.0,) * 3)
    return {"mean": mean, "std": std, "sha256": _hash(image)}


def _hash(image: Tensor) -> str:
    return hashlib.sha256(image.numpy().data).hexdigest()


def _decode_all(paths: list[Path], size: int, cache_path: Path) -> dict[int, str]:
    """Fill `cache_path` in parallel, close the gaps of unreadable images and return their faults."""
    part = cache_path.with_suffix(".part")  # one name, unlike atomic's: a killed process leaves gigabytes to reuse
    _reserve(part, len(paths) * 3 * size * size)
    array = np.memmap(part, np.uint8, "r+", shape=(len(paths), 3, size, size))

    def decode_into(place: int) -> str | None:
        pixels = decode(paths[place], size)
        if isinstance(pixels, str):
            return pixels
        array[place] = pixels
        return None

    quiet = warnings.catch_warnings(action="ignore", category=Image.DecompressionBombWarning)  # `_refusal` names them
    with quiet, ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(decode_into, range(len(paths)))
        results = tqdm(results, total=len(paths), desc="decoding", unit="image", mininterval=1)
        faults = {i: fault for i, fault in enumerate(results) if fault is not None}
    readable = [i for i in range(len(paths)) if i not in faults]
    for place, i in enumerate(readable):
        if place != i:
            array[place] = array[i]
    array.flush()
    os.truncate(part, len(readable) * 3 * size * size)
    part.replace(cache_path)
    return faults


def _reserve(path: Path, n_bytes: int) -> None:
    """Make a file of this size, its space taken now: on a full disk, writing to mapped pages kills the process."""
    try:
        with path.open("w+b") as file:  # readable: where a file system cannot reserve, glibc reads and writes instead
            file.truncate(n_bytes)
            if sys.platform == "linux":
                os.posix_fallocate(file.fileno(), 0, n_bytes)
    except OSError:
        path.unlink(missing_ok=True)
        raise
