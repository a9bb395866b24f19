"""The images of a folder, decoded once into a file that is mapped into memory.

The file is named by a hash of the folder, of the size and of the path, size and modification time of every image. A
.json file beside it holds the images that cannot be read, what the others became, the mean, the standard deviation and
the pixels' sha256.
"""

import hashlib
import json
import os
import shutil
import warnings
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from tqdm import tqdm

from contrastive.dataset.folder.bands import RGB_8, Kind, bands, common_kind
from contrastive.dataset.folder.decode import decode
from contrastive.dataset.folder.layout import Part
from contrastive.dataset.splits import ChannelStats, channel_stats
from contrastive.errors import ConfigError
from contrastive.files import locked, write_text
from contrastive.listing.found import NAMED, Seen
from contrastive.schema import misfit

FORMAT = 5  # of the cache: raise it when the same files would be decoded to other pixels or stored otherwise
CHUNK = 512  # images that are decoded before they are written


class Facts(TypedDict):
    """The .json file: {index of a file: why it cannot be read}, {what images became: which}, the statistics and the
    pixels' sha256."""

    faults: dict[str, str]
    seen: dict[str, Seen]
    mean: list[float]
    std: list[float]
    sha256: str
    kind: NotRequired[tuple[int, str]]  # channels and dtype, where they are not 3 and uint8


class SplitImages(NamedTuple):
    """The readable images of a split."""

    image: (
        Tensor  # (n, K, size, size) uint8 or uint16, mapped and read-only; or `StoredImages`, which are indexed alike
    )
    faults: dict[int, str]  # index of each unreadable file in the split, and the reason
    stats: ChannelStats  # mean and standard deviation of `image`, scaled to [0, 1]
    digest: str  # sha256 of `image`, or of the files
    seen: dict[str, Seen]  # see `decode`

    @property
    def kind(self) -> Kind:
        """Channels and dtype of `image`."""
        return Kind(self.image.shape[1], np.dtype(str(self.image.dtype).removeprefix("torch.")))


def load_images(
    part: Part,
    *,
    size: int,
    cache: Path,
    channels: int | None = None,
    orientation: bool = True,
    like: Kind | None = None,
) -> SplitImages:
    """The images of a split in their order: from the cache, or decoded into it while other processes wait.

    Args:
        size: side of the decoded images in pixels.
        channels: of every image; None = as the files have it, see `common_kind`.
        orientation: as in `decode`.
        like: the kind that the images must be of; None = the common one.

    Raises:
        ConfigError: no image can be read, `channels` does not fit them, or the disk of `cache` has too little space.
    """
    pixels = _pixels(part, size, cache, channels, orientation)
    facts_path = pixels.with_suffix(".json")
    with locked(pixels.with_suffix(".lock")):
        facts = _read_facts(facts_path, pixels, len(part.files), size)
        if facts is None or (like is not None and _kind(facts) != like):
            kind = like or common_kind([part.folder / file.path for file in part.files], channels)
            facts = _decode_all(part, size, kind, orientation, pixels)
            write_text(facts_path, json.dumps(facts))  # last: marks the pixels as complete
    faults = {int(i): fault for i, fault in facts["faults"].items()}
    image = _map(pixels, len(part.files) - len(faults), size, _kind(facts))
    stats = tuple(facts["mean"]), tuple(facts["std"])
    return SplitImages(image, faults, stats, digest=facts["sha256"], seen=facts["seen"])


def _kind(facts: Facts) -> Kind:
    channels, dtype = facts.get("kind", (RGB_8.channels, RGB_8.dtype.name))
    return Kind(channels, np.dtype(dtype))


def _n_bytes(n: int, size: int, kind: Kind) -> int:
    """Of n images."""
    return n * kind.channels * size * size * kind.dtype.itemsize


def _pixels(part: Part, size: int, cache: Path, channels: int | None, orientation: bool = True) -> Path:
    return cache / f"image_folder-{listing_hash(part, size, channels, orientation)}.images"


def listing_hash(part: Part, size: int, channels: int | None = None, orientation: bool = True) -> str:
    """A hash of the folder, of the side in pixels, of channels and orientation if they are asked for, and of path, size
    and modification time of every image."""
    listing = hashlib.sha256(os.fsencode(f"{FORMAT}\0{size}\0{part.folder.resolve()}\n"))
    for file in part.files:
        info = os.stat(part.folder / file.path)
        listing.update(os.fsencode(f"{file.path}\0{info.st_size}\0{info.st_mtime_ns}\n"))
    if channels is not None:
        listing.update(f"{channels} channels\n".encode())
    if not orientation:
        listing.update(b"as stored\n")
    return listing.hexdigest()[:32]


def _read_facts(path: Path, pixels: Path, n_files: int, size: int) -> Facts | None:
    """What an earlier decoding wrote; None if there was none, or its files are not whole."""
    try:
        facts: Facts = json.loads(path.read_bytes())
        if misfit(facts, Facts) is not None or not {int(i) for i in facts["faults"]} <= set(range(n_files)):
            return None
        n_bytes = _n_bytes(n_files - len(facts["faults"]), size, _kind(facts))
        return facts if pixels.stat().st_size == n_bytes else None
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _decode_all(part: Part, size: int, kind: Kind, orientation: bool, pixels: Path) -> Facts:
    """Write the decoded images to `pixels` and return the facts about them."""
    paths = [part.folder / file.path for file in part.files]
    needed, free = _n_bytes(len(paths), size, kind), shutil.disk_usage(pixels.parent).free
    if needed > free:
        raise ConfigError(
            f"{pixels.parent} has {free / 1e9:.1f} GB of free space and the decoded images need {needed / 1e9:.1f}: "
            "try dataset.cache=PATH on a larger disk, or dataset.decoded=false"
        )
    partial = pixels.with_suffix(".part")  # one name: what a killed process left is written over
    try:
        faults, seen, digest = _write(paths, size, kind, orientation, partial)
        if len(faults) == len(paths):
            raise none_readable(part, faults[0])
        partial.replace(pixels)
    finally:
        partial.unlink(missing_ok=True)
    mean, std = channel_stats(_map(pixels, len(paths) - len(faults), size, kind))
    named = {str(i): why for i, why in faults.items()}
    first = {
        what: Seen(n=len(rows), first=[part.files[i].path for i in rows[:NAMED]]) for what, rows in sorted(seen.items())
    }
    facts: Facts = {"faults": named, "seen": first, "mean": list(mean), "std": list(std), "sha256": digest}
    return facts if kind == RGB_8 else {**facts, "kind": (kind.channels, kind.dtype.name)}


def none_readable(part: Part, fault: str) -> ConfigError:
    """The sentence for a split without an image that can be read."""
    return ConfigError(
        f"none of the {len(part.files)} images in {part.folder} can be read ({fault}): replace them, or try another "
        "dataset.root=PATH"
    )


def examined(path: Path, size: int, kind: Kind, orientation: bool) -> tuple[npt.NDArray[Any] | str, list[str]]:
    """Pixels (K, size, size) of one image, or the reason why the file cannot be read; and what became of it."""
    seen: list[str] = []
    if kind == RGB_8 and path.suffix.lower() != ".npy":
        return decode(path, size, orientation=orientation, seen=seen), seen
    try:
        return bands(path, size, kind, orientation=orientation, seen=seen), seen
    except Exception as error:  # decoders raise errors of many kinds for files that are damaged
        return " ".join(str(error).split()) or type(error).__name__, seen


def _write(
    paths: list[Path], size: int, kind: Kind, orientation: bool, file_path: Path
) -> tuple[dict[int, str], dict[str, list[int]], str]:
    """Decode in parallel and write the readable images one after the other; return the faults, the rows that something
    was done to, and the sha256."""
    faults, seen, digest = dict[int, str](), defaultdict[str, list[int]](list), hashlib.sha256()
    bar = tqdm(total=len(paths), desc="decoding", unit="image", mininterval=1)
    quiet = warnings.catch_warnings(action="ignore")  # of Pillow, which name no file: bombs, damaged metadata
    with quiet, bar, ThreadPoolExecutor(os.cpu_count()) as pool, file_path.open("wb") as file:
        for start in range(0, len(paths), CHUNK):
            chunk = paths[start : start + CHUNK]
            decoded = pool.map(examined, chunk, repeat(size), repeat(kind), repeat(orientation))
            for i, (pixels, what) in enumerate(decoded, start):
                bar.update()
                if isinstance(pixels, str):
                    faults[i] = pixels
                    continue
                for each in what:
                    seen[each].append(i)
                raw = pixels.tobytes()
                digest.update(raw)
                file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    return faults, seen, digest.hexdigest()


def _map(pixels: Path, n: int, size: int, kind: Kind) -> Tensor:
    with warnings.catch_warnings(action="ignore"):  # torch has no read-only tensors: writing to this one would crash
        return torch.from_numpy(np.memmap(pixels, kind.dtype, "r", shape=(n, kind.channels, size, size)))
