"""The images of a folder: examined once, and decoded into a file that is mapped into memory, or read as they lie.

What is known of them is kept in a .json file, which is named by a hash of the folder, of the size and of the path, size
and modification time of every image: which cannot be read, what the others became, mean and standard deviation, and a
hash of the bytes of each. The decoded images lie beside it.
"""

import hashlib
import os
import shutil
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, NamedTuple, TypedDict

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from contrastive.dataset.folder.bands import RGB_8, Array, Kind, common_kind, decode
from contrastive.dataset.folder.kept import kept
from contrastive.dataset.folder.layout import Part
from contrastive.dataset.folder.stored import Contents, Rows, Source, StoredImages, content_of
from contrastive.dataset.splits import stats_of_levels
from contrastive.errors import ConfigError
from contrastive.files import atomic, read_bytes
from contrastive.listing.found import CANNOT_BE_READ, Listing, Seen, seen_notes, shortened

FORMAT = 6  # of the cache: raise it when the same files would be decoded to other pixels or stored otherwise
CHUNK = 512  # images that are decoded before they are written
LARGE = 20e9  # bytes of decoded images above which they stay encoded


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


class Wanted(NamedTuple):
    """What images are to become, and the folder for it; the fields are the arguments of `image_folder`."""

    size: int
    cache: Path
    channels: int | None = None
    orientation: bool = True
    frame: int | None = None
    decoded: bool | str = "auto"


class SplitImages(NamedTuple):
    """The readable images of a split.

    Attributes:
        image: (n, K, size, size) uint8 or uint16, mapped and read-only; or `StoredImages`, which are indexed alike.
    """

    image: Tensor
    facts: Facts


class Files(Source):
    """Image files as they lie.

    Args:
        content: of each file, in the order of the paths.
    """

    def __init__(self, paths: list[Path], content: Contents) -> None:
        self.paths, self.contents = paths, content

    def __len__(self) -> int:
        return len(self.paths)

    def content(self, rows: Rows) -> Contents:
        return self.contents[rows]

    def read(self, rows: Rows) -> Iterator[bytes]:
        return (read_bytes(self.paths[row]) for row in rows)

    def name(self, row: int) -> str:
        return str(self.paths[row])


def read_images(parts: Mapping[str, Part], wanted: Wanted) -> dict[str, SplitImages]:
    """The images of each split in their order, all of the kind of the training images.

    Raises:
        ConfigError: no image of a split can be read, `channels` or `frame` does not fit them, or the disk of `cache`
            has too little space.
    """
    if wanted.decoded is True and wanted.frame is not None:
        raise ConfigError("dataset.frame keeps images whole, which decoded ones are not: try dataset.decoded=false")
    is_large = sum(len(part.files) for part in parts.values()) * 3 * wanted.size**2 > LARGE
    is_decoded = wanted.decoded is True or (wanted.decoded == "auto" and wanted.frame is None and not is_large)
    images: dict[str, SplitImages] = {}
    for key, part in parts.items():
        like = kind_of(images["train"].facts) if images else None
        images[key] = _load(part, wanted, like, is_decoded=is_decoded)
    if wanted.frame is not None and (kind := kind_of(images["train"].facts)) != RGB_8:
        raise ConfigError(f"dataset.frame is for RGB images, and these have {kind}: try dataset.frame=null")
    return images


def _load(part: Part, wanted: Wanted, like: Kind | None, *, is_decoded: bool) -> SplitImages:
    """The images of a split: what is known of them, or examined while other processes wait."""
    name = f"image_folder-{listing_hash(part, wanted.size, wanted.channels, wanted.orientation)}"
    path, pixels, n = wanted.cache / f"{name}.json", wanted.cache / f"{name}.images", len(part.files)

    def make() -> Facts:
        kind = like or common_kind(part.paths, wanted.channels)
        if not is_decoded:
            return examined(part, wanted, kind)
        free, needed = shutil.disk_usage(wanted.cache).free, _n_bytes(n, wanted.size, kind)
        if needed > free:
            raise ConfigError(
                f"{wanted.cache} has {free / 1e9:.1f} GB of free space and the decoded images need {needed / 1e9:.1f}: "
                "try dataset.cache=PATH on a larger disk, or dataset.decoded=false"
            )
        with atomic(pixels, alone=True) as place, place.open("wb") as out:
            return examined(part, wanted, kind, out)

    def is_whole(facts: Facts) -> bool:
        n_bytes = _n_bytes(n - len(facts["faults"]), wanted.size, kind_of(facts))
        return like in (None, kind_of(facts)) and (not is_decoded or pixels.stat().st_size == n_bytes)

    facts = kept(path, Facts, make, is_whole=is_whole)
    if not is_decoded:
        files = Files(readable(part, facts).paths, content_in(facts))
        stored = StoredImages(files, size=wanted.size, kind=kind_of(facts), orientation=wanted.orientation)
        return SplitImages(stored.as_tensor(), facts)
    with warnings.catch_warnings(action="ignore"):  # torch has no read-only tensors: writing to this one would crash
        shape = (n - len(facts["faults"]), facts["kind"][0], wanted.size, wanted.size)
        return SplitImages(torch.from_numpy(np.memmap(pixels, facts["kind"][1], "r", shape=shape)), facts)


def kind_of(facts: Facts) -> Kind:
    """Channels and dtype of the images."""
    return Kind(facts["kind"][0], np.dtype(facts["kind"][1]))


def content_in(facts: Facts) -> Contents:
    """(n,) the `content_of` each readable file."""
    return np.frombuffer(bytes.fromhex(facts["content"]), np.uint64)


def readable(part: Part, facts: Facts) -> Part:
    """The split without the files that cannot be read."""
    return Part(part.folder, [file for i, file in enumerate(part.files) if str(i) not in facts["faults"]])


def _n_bytes(n: int, size: int, kind: Kind) -> int:
    """Of n images."""
    return n * kind.channels * size * size * kind.dtype.itemsize


def listing_hash(part: Part, size: int, channels: int | None = None, orientation: bool = True) -> str:
    """A hash of the folder, of what images become, and of path, size and modification time of every image."""
    listing = hashlib.sha256(os.fsencode(f"{FORMAT}\0{size}\0{channels}\0{orientation}\0{part.folder.resolve()}\n"))
    for file in part.files:
        info = os.stat(part.folder / file.path)
        listing.update(os.fsencode(f"{file.path}\0{info.st_size}\0{info.st_mtime_ns}\n"))
    return listing.hexdigest()[:32]


def examined(part: Part, wanted: Wanted, kind: Kind, out: IO[bytes] | None = None) -> Facts:
    """What is known of the images of a split, each read and decoded once; the readable ones are written to `out`.

    Raises:
        ConfigError: no image can be read, or the system does not give a file.
    """
    faults, seen, content = dict[str, str](), defaultdict[str, list[str]](list), list[int]()
    paths, n_levels = part.paths, np.iinfo(kind.dtype).max + 1
    levels = np.zeros((kind.channels, n_levels), np.int64)

    def examine(path: Path) -> tuple[int, Array | str, list[str]]:
        raw, what = read_bytes(path), list[str]()
        return content_of(raw), decode(raw, wanted.size, kind, orientation=wanted.orientation, seen=what), what

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
    parts = {key: readable(part, facts[key]) for key, part in listed.splits.items()}
    faults = [
        f"{listed.splits[key].files[int(i)].path}: {why}" for key in parts for i, why in facts[key]["faults"].items()
    ]
    left_out = {**listed.left_out, **({CANNOT_BE_READ: faults} if faults else {})}
    seen = seen_notes([own["seen"] for own in facts.values()], sum(len(part.files) for part in parts.values()))
    return listed._replace(splits=parts, left_out=left_out, notes=(*listed.notes, *more, *seen))
