"""The images of a folder, decoded once into a file that is mapped into memory.

The file is named by a hash of the folder, of the size and of the path, size and modification time of every image. A
.json file beside it holds the images that cannot be read, what the others became, the mean, the standard deviation and
the pixels' sha256.
"""

import hashlib
import os
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
from contrastive.dataset.folder.decode import damage, decode
from contrastive.dataset.folder.kept import check_space, kept
from contrastive.dataset.folder.layout import Part
from contrastive.dataset.splits import ChannelStats, channel_stats
from contrastive.errors import ConfigError
from contrastive.listing.found import Seen, shortened

FORMAT = 5  # of the cache: raise it when the same files would be decoded to other pixels or stored otherwise
CHUNK = 512  # images that are decoded before they are written


class Facts(TypedDict):
    """The .json file: {index of a file: why it cannot be read}, {what images became: which}, the statistics, the
    pixels' sha256 and, in hexadecimal, a hash of each image's pixels."""

    faults: dict[str, str]
    seen: dict[str, Seen]
    mean: list[float]
    std: list[float]
    sha256: str
    content: str
    kind: NotRequired[tuple[int, str]]  # channels and dtype, where they are not 3 and uint8


class Wanted(NamedTuple):
    """What images are to become, and the folder for it; the fields are the arguments of `image_folder`."""

    size: int
    cache: Path
    channels: int | None = None
    orientation: bool = True
    frame: int | None = None


class SplitImages(NamedTuple):
    """The readable images of a split."""

    image: (
        Tensor  # (n, K, size, size) uint8 or uint16, mapped and read-only; or `StoredImages`, which are indexed alike
    )
    faults: dict[int, str]  # index of each unreadable file in the split, and the reason
    stats: ChannelStats  # mean and standard deviation of `image`, scaled to [0, 1]
    digest: str  # sha256 of `image`, or of the files
    seen: list[dict[str, Seen]]  # what became of them, see `decode`; a part for each index
    content: npt.NDArray[np.uint64]  # (n,) a hash of each image's pixels, or of its bytes

    @property
    def kind(self) -> Kind:
        """Channels and dtype of `image`."""
        return Kind(self.image.shape[1], np.dtype(str(self.image.dtype).removeprefix("torch.")))


def load_images(part: Part, wanted: Wanted, like: Kind | None = None) -> SplitImages:
    """The images of a split in their order: from the cache, or decoded into it while other processes wait.

    Args:
        like: the kind that the images must be of; None = the common one, see `common_kind`.

    Raises:
        ConfigError: no image can be read, `channels` does not fit them, or the disk of `cache` has too little space.
    """
    size, channels = wanted.size, wanted.channels
    name = f"image_folder-{listing_hash(part, size, channels, wanted.orientation)}.images"
    n, pixels = len(part.files), wanted.cache / name

    def make() -> Facts:
        kind = like or common_kind(part.paths, channels)
        return _decode_all(part, wanted, kind, pixels)

    def is_whole(facts: Facts) -> bool:
        n_bytes = _n_bytes(n - len({int(i) for i in facts["faults"]}), size, _kind(facts))
        return like in (None, _kind(facts)) and pixels.stat().st_size == n_bytes

    facts = kept(pixels.with_suffix(".json"), Facts, make, is_whole=is_whole)
    faults = {int(i): fault for i, fault in facts["faults"].items()}
    image = _map(pixels, n - len(faults), size, _kind(facts))
    stats = tuple(facts["mean"]), tuple(facts["std"])
    content = np.frombuffer(bytes.fromhex(facts["content"]), np.uint64)
    return SplitImages(image, faults, stats, facts["sha256"], [facts["seen"]], content)


def _kind(facts: Facts) -> Kind:
    channels, dtype = facts.get("kind", (RGB_8.channels, RGB_8.dtype.name))
    return Kind(channels, np.dtype(dtype))


def _n_bytes(n: int, size: int, kind: Kind) -> int:
    """Of n images."""
    return n * kind.channels * size * size * kind.dtype.itemsize


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


def _decode_all(part: Part, wanted: Wanted, kind: Kind, pixels: Path) -> Facts:
    """Write the decoded images to `pixels` and return the facts about them."""
    n, remedy = len(part.files), "dataset.cache=PATH on a larger disk, or dataset.decoded=false"
    check_space(pixels.parent, _n_bytes(n, wanted.size, kind), "the decoded images", remedy)
    partial = pixels.with_suffix(".part")  # one name: what a killed process left is written over
    try:
        faults, seen, digest, content = _write(part, wanted, kind, partial)
        if len(faults) == n:
            raise none_readable(part, faults[0])
        partial.replace(pixels)
    finally:
        partial.unlink(missing_ok=True)
    mean, std = channel_stats(_map(pixels, n - len(faults), wanted.size, kind))
    facts = Facts(faults={str(i): why for i, why in faults.items()}, seen=shortened(seen), mean=list(mean),
                  std=list(std), sha256=digest, content=content)  # fmt: skip
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
        return damage(path, error), seen


def _write(
    part: Part, wanted: Wanted, kind: Kind, file_path: Path
) -> tuple[dict[int, str], dict[str, list[str]], str, str]:
    """Decode in parallel and write the readable images one after the other; return the faults, the files that something
    was done to, the sha256, and the hashes of all images."""
    faults, seen, digest = dict[int, str](), defaultdict[str, list[str]](list), hashlib.sha256()
    content = list[bytes]()
    paths = part.paths
    bar = tqdm(total=len(paths), desc="decoding", unit="image", mininterval=1)
    quiet = warnings.catch_warnings(action="ignore")  # of Pillow, which name no file: bombs, damaged metadata
    with quiet, bar, ThreadPoolExecutor(os.cpu_count()) as pool, file_path.open("wb") as file:
        for start in range(0, len(paths), CHUNK):
            chunk = paths[start : start + CHUNK]
            decoded = pool.map(examined, chunk, repeat(wanted.size), repeat(kind), repeat(wanted.orientation))
            for i, (pixels, what) in enumerate(decoded, start):
                bar.update()
                if isinstance(pixels, str):
                    faults[i] = pixels
                    continue
                for each in what:
                    seen[each].append(part.files[i].path)
                raw = pixels.tobytes()
                digest.update(raw)
                content.append(content_of(raw))
                file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    return faults, seen, digest.hexdigest(), b"".join(content).hex()


def content_of(raw: bytes) -> bytes:
    """A hash of 64 bits, by which images that are there twice are counted."""
    return hashlib.blake2b(raw, digest_size=8).digest()


def _map(pixels: Path, n: int, size: int, kind: Kind) -> Tensor:
    with warnings.catch_warnings(action="ignore"):  # torch has no read-only tensors: writing to this one would crash
        return torch.from_numpy(np.memmap(pixels, kind.dtype, "r", shape=(n, kind.channels, size, size)))
