"""The images of a folder, decoded once into a file that is mapped into memory.

The file is named by a hash of the folder, of the size and of the path, size and modification time of every image. A
.json file beside it holds the images that cannot be read, the mean, the standard deviation and the pixels' sha256.
"""

import hashlib
import json
import os
import shutil
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from tqdm import tqdm

from contrastive.dataset.folder.decode import decode
from contrastive.dataset.folder.layout import Part
from contrastive.dataset.splits import ChannelStats, channel_stats
from contrastive.errors import ConfigError
from contrastive.files import locked, write_text
from contrastive.schema import misfit

FORMAT = 3  # of the cache: raise it when the same files would be decoded to other pixels or stored otherwise
CHUNK = 512  # images that are decoded before they are written


class Facts(TypedDict):
    """The .json file: {index of a file: why it cannot be read}, the statistics and the pixels' sha256."""

    faults: dict[str, str]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    sha256: str


class DecodedImages(NamedTuple):
    """The readable images of a split, mapped from disk."""

    image: Tensor  # (n, 3, size, size) uint8, read-only
    faults: dict[int, str]  # index of each unreadable file in the split, and the reason
    stats: ChannelStats  # mean and standard deviation of `image`, scaled to [0, 1]
    digest: str  # sha256 of `image`


def load_images(part: Part, *, size: int, cache: Path) -> DecodedImages:
    """The images of a split in their order: from the cache, or decoded into it while other processes wait.

    Args:
        size: side of the decoded images in pixels.

    Raises:
        ConfigError: no image can be read, or the disk of `cache` has too little space.
    """
    pixels = _pixels(part, size, cache)
    facts_path = pixels.with_suffix(".json")
    with locked(pixels.with_suffix(".lock")):
        facts = _read_facts(facts_path, pixels, len(part.files), size)
        if facts is None:
            facts = _decode_all(part, size, pixels)
            write_text(facts_path, json.dumps(facts))  # last: marks the pixels as complete
    faults = {int(i): fault for i, fault in facts["faults"].items()}
    image = _map(pixels, len(part.files) - len(faults), size)
    (r, g, b), (r_std, g_std, b_std) = facts["mean"], facts["std"]
    return DecodedImages(image, faults, stats=((r, g, b), (r_std, g_std, b_std)), digest=facts["sha256"])


def is_decoded(part: Part, *, size: int, cache: Path) -> bool:
    """Whether an earlier start decoded these images."""
    return _pixels(part, size, cache).with_suffix(".json").exists()


def _pixels(part: Part, size: int, cache: Path) -> Path:
    return cache / f"image_folder-{listing_hash(part, size)}.images"


def listing_hash(part: Part, size: int) -> str:
    """A hash of the folder, of a number (the side in pixels) and of path, size and modification time of every image."""
    listing = hashlib.sha256(os.fsencode(f"{FORMAT}\0{size}\0{part.folder.resolve()}\n"))
    for file in part.files:
        info = os.stat(part.folder / file.path)
        listing.update(os.fsencode(f"{file.path}\0{info.st_size}\0{info.st_mtime_ns}\n"))
    return listing.hexdigest()[:32]


def _read_facts(path: Path, pixels: Path, n_files: int, size: int) -> Facts | None:
    """What an earlier decoding wrote; None if there was none, or its files are not whole."""
    try:
        facts: Facts = json.loads(path.read_bytes())
        if misfit(facts, Facts) is not None or not {int(i) for i in facts["faults"]} <= set(range(n_files)):
            return None
        n_bytes = (n_files - len(facts["faults"])) * 3 * size * size
        return facts if pixels.stat().st_size == n_bytes else None
    except (OSError, ValueError, RecursionError):
        return None


def _decode_all(part: Part, size: int, pixels: Path) -> Facts:
    """Write the decoded images to `pixels` and return the facts about them."""
    paths = [part.folder / file.path for file in part.files]
    needed, free = len(paths) * 3 * size * size, shutil.disk_usage(pixels.parent).free
    if needed > free:
        raise ConfigError(
            f"{pixels.parent} has {free / 1e9:.1f} GB of free space and the decoded images need {needed / 1e9:.1f}: "
            "try dataset.cache=PATH on a larger disk"
        )
    partial = pixels.with_suffix(".part")  # one name: what a killed process left is written over
    try:
        faults, digest = _write(paths, size, partial)
        if len(faults) == len(paths):
            raise ConfigError(
                f"none of the {len(paths)} images in {part.folder} can be read ({faults[0]}): replace them, or try "
                "another dataset.root=PATH"
            )
        partial.replace(pixels)
    finally:
        partial.unlink(missing_ok=True)
    mean, std = channel_stats(_map(pixels, len(paths) - len(faults), size))
    return {"faults": {str(i): why for i, why in faults.items()}, "mean": mean, "std": std, "sha256": digest}


def _write(paths: list[Path], size: int, file_path: Path) -> tuple[dict[int, str], str]:
    """Decode in parallel and write the readable images one after the other; return the faults and the sha256."""
    faults, digest = {}, hashlib.sha256()
    bar = tqdm(total=len(paths), desc="decoding", unit="image", mininterval=1)
    quiet = warnings.catch_warnings(action="ignore", category=Image.DecompressionBombWarning)  # `decode` refuses them
    with quiet, bar, ThreadPoolExecutor(os.cpu_count()) as pool, file_path.open("wb") as file:
        for start in range(0, len(paths), CHUNK):
            chunk = paths[start : start + CHUNK]
            for i, decoded in enumerate(pool.map(decode, chunk, [size] * len(chunk)), start):
                bar.update()
                if isinstance(decoded, str):
                    faults[i] = decoded
                else:
                    raw = decoded.tobytes()
                    digest.update(raw)
                    file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    return faults, digest.hexdigest()


def _map(pixels: Path, n: int, size: int) -> Tensor:
    with warnings.catch_warnings(action="ignore"):  # torch has no read-only tensors: writing to this one would crash
        return torch.from_numpy(np.memmap(pixels, np.uint8, "r", shape=(n, 3, size, size)))
