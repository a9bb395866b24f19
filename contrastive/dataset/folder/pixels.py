"""The images of a folder: examined and decoded once into a file that is mapped into memory.

What is known of them is kept in a .json file, which is named by a hash of the folder, of the size and of the path, size
and modification time of every image: which cannot be read, what the others became, mean and standard deviation, and a
hash of the bytes of each. The decoded images lie beside it.
"""

import hashlib
import os
import shutil
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from contrastive.dataset.folder.decode import Array, Kind, common_kind, decode
from contrastive.dataset.folder.layout import Part
from contrastive.dataset.splits import stats_of_levels
from contrastive.errors import ConfigError
from contrastive.files import atomic, content_of, kept
from contrastive.listing.found import CANNOT_BE_READ, Listing, Seen, seen_notes, shortened

FORMAT = 7  # of the cache: raise it when the same files would be decoded to other pixels or stored otherwise
CHUNK = 512  # images that are decoded before they are written


class Facts(TypedDict):
    """What is kept of a split, as JSON.

    Attributes:
        faults: {index of a file: why it cannot be read}.
        seen: {what images became: which}.
        content: the `content_of` each readable file, in hexadecimal.
        kind: channels and dtype of all images.
    """

    faults: dict[str, str]
    seen: dict[str, Seen]
    mean: list[float]
    std: list[float]
    content: str
    kind: tuple[int, str]


def read_images(
    parts: Mapping[str, Part], size: int, cache: Path, channels: int | None = None
) -> dict[str, tuple[Tensor, Facts]]:
    """The readable images of each split in their order, all of the kind of the training images, and what is known of
    them: (n, K, size, size) uint8 or uint16, mapped and read-only.

    Args:
        size: side in pixels.
        cache: folder for them.
        channels: as in `common_kind`.

    Raises:
        ConfigError: no image of a split can be read, `channels` does not fit them, or the disk of `cache` has too
            little space.
    """
    images: dict[str, tuple[Tensor, Facts]] = {}
    for key, part in parts.items():
        kind = kind_of(images["train"][1]) if images else None
        images[key] = _load(part, size, cache, channels, kind)
    return images


def _load(part: Part, size: int, cache: Path, channels: int | None, like: Kind | None) -> tuple[Tensor, Facts]:
    """The images of a split, decoded while other processes wait if they are not there."""
    name = f"image_folder-{listing_hash(part, size, channels)}"
    path, pixels, n = cache / f"{name}.json", cache / f"{name}.images", len(part.files)

    def make() -> Facts:
        kind = like or common_kind(part.paths, channels)
        free, needed = shutil.disk_usage(cache).free, _n_bytes(n, size, kind)
        if needed > free:
            raise ConfigError(
                f"{cache} has {free / 1e9:.1f} GB of free space and the decoded images need {needed / 1e9:.1f}: "
                "try dataset.cache=PATH on a larger disk, or contrastive pack for dataset=shards, which stay encoded"
            )
        with atomic(pixels, alone=True) as place, place.open("wb") as out:
            return examined(part, size, kind, out)

    def is_whole(facts: Facts) -> bool:
        kind = kind_of(facts)
        return like in (None, kind) and pixels.stat().st_size == _n_bytes(n - len(facts["faults"]), size, kind)

    facts = kept(path, Facts, make, is_whole=is_whole)
    with warnings.catch_warnings(action="ignore"):  # torch has no read-only tensors: writing to this one would crash
        shape = (n - len(facts["faults"]), facts["kind"][0], size, size)
        return torch.from_numpy(np.memmap(pixels, facts["kind"][1], "r", shape=shape)), facts


def kind_of(facts: Facts) -> Kind:
    """Channels and dtype of the images."""
    return Kind(facts["kind"][0], np.dtype(facts["kind"][1]))


def content_in(facts: Facts) -> NDArray[np.uint64]:
    """(n,) the `content_of` each readable file."""
    return np.frombuffer(bytes.fromhex(facts["content"]), np.uint64)


def _n_bytes(n: int, size: int, kind: Kind) -> int:
    """Of n images."""
    return n * kind.channels * size * size * kind.dtype.itemsize


def listing_hash(part: Part, size: int, channels: int | None = None) -> str:
    """A hash of the folder, of what images become, and of path, size and modification time of every image."""
    listing = hashlib.sha256(os.fsencode(f"{FORMAT}\0{size}\0{channels}\0{part.folder.resolve()}\n"))
    for file in part.files:
        info = os.stat(part.folder / file.path)
        listing.update(os.fsencode(f"{file.path}\0{info.st_size}\0{info.st_mtime_ns}\n"))
    return listing.hexdigest()[:32]


def examined(part: Part, size: int, kind: Kind, out: IO[bytes] | None = None) -> Facts:
    """What is known of the images of a split, each read and decoded once; the readable ones are written to `out`.

    Raises:
        ConfigError: no image can be read, or the system does not give a file.
    """
    faults, seen, content = dict[str, str](), defaultdict[str, list[str]](list), list[int]()
    paths, n_levels = part.paths, np.iinfo(kind.dtype).max + 1
    levels = np.zeros((kind.channels, n_levels), np.int64)

    def examine(path: Path) -> tuple[int, Array | str, list[str]]:
        raw, what = path.read_bytes(), list[str]()
        return content_of(raw), decode(raw, size, kind, seen=what), what

    bar = tqdm(total=len(paths), desc="decoding", unit="image", mininterval=1, delay=1)
    quiet = warnings.catch_warnings(action="ignore")  # of Pillow, which name no file: bombs, damaged metadata
    with quiet, bar, ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(paths), CHUNK):
            for i, (own, pixels, what) in enumerate(pool.map(examine, paths[start : start + CHUNK]), start):
                bar.update()
                if isinstance(pixels, str):
                    faults[str(i)] = pixels
                    continue
                content.append(own)
                levels += [np.bincount(channel.ravel(), minlength=n_levels) for channel in pixels]
                for each in what:
                    seen[each].append(part.files[i].path)
                if out is not None:
                    out.write(pixels.tobytes())
    if not content:
        raise ConfigError(
            f"none of the {len(part.files)} images in {part.folder} can be read ({faults['0']}): replace them, or try "
            "another dataset.root=PATH"
        )
    mean, std = stats_of_levels(torch.from_numpy(levels))
    codes = np.array(content, np.uint64).tobytes().hex()
    return Facts(faults=faults, seen=shortened(seen), mean=list(mean), std=list(std), content=codes,
                 kind=(kind.channels, kind.dtype.name))  # fmt: skip


def told(listed: Listing[Part], facts: Mapping[str, Facts], more: Sequence[str] = ()) -> Listing[Part]:
    """What was listed without the files that cannot be read, with what the images are and became.

    Args:
        more: notes on all of them.
    """
    parts = {
        key: Part(part.folder, [file for i, file in enumerate(part.files) if str(i) not in facts[key]["faults"]])
        for key, part in listed.splits.items()
    }
    faults = [
        f"{listed.splits[key].files[int(i)].path}: {why}" for key in parts for i, why in facts[key]["faults"].items()
    ]
    left_out = {**listed.left_out, **({CANNOT_BE_READ: faults} if faults else {})}
    seen = seen_notes([own["seen"] for own in facts.values()], sum(len(part.files) for part in parts.values()))
    return listed._replace(splits=parts, left_out=left_out, notes=(*listed.notes, *more, *seen))
