"""The images of a folder read from their files when a step needs them, where decoding all of them would fill a disk."""

import hashlib
from pathlib import Path

import torch

from contrastive.dataset.folder.bands import RGB_8, common_kind
from contrastive.dataset.folder.cache import SplitImages, listing_hash, none_readable
from contrastive.dataset.folder.layout import Part
from contrastive.dataset.shard.images import StoredImages
from contrastive.dataset.shard.index import index_shards
from contrastive.dataset.shard.sample import Fields
from contrastive.dataset.shard.store import Files
from contrastive.dataset.splits import stats_of_levels
from contrastive.errors import ConfigError
from contrastive.listing.found import Seen

LARGE = 20e9  # bytes of decoded images above which they stay encoded
PER_INDEX = 4096  # files of an index: what one process of several works at


def is_decoded(choice: bool | str, parts: list[Part], *, size: int, frame: int | None, channels: int | None) -> bool:
    """Whether to decode all images once; "auto": if they are small, or not RGB of 8 bits, and not to stay whole.

    Raises:
        ConfigError: images of another kind are asked to stay encoded, or decoded ones to stay whole.
    """
    if choice is True and frame is not None:
        raise ConfigError("dataset.frame keeps images whole, which decoded ones are not: try dataset.decoded=false")
    is_large = sum(len(part.files) for part in parts) * 3 * size * size > LARGE
    if choice is True or (choice == "auto" and frame is None and not is_large):
        return True
    kind = common_kind([parts[0].folder / file.path for file in parts[0].files], channels)
    if kind != RGB_8 and (choice is False or frame is not None):
        raise ConfigError(
            "dataset.decoded=false and dataset.frame are for RGB images, and these have "
            f"{kind}: try dataset.decoded=true dataset.frame=null"
        )
    return kind != RGB_8


def loose_images(part: Part, *, size: int, cache: Path, orientation: bool) -> SplitImages:
    """The images of a split in their order, of the pixels that `load_images` decodes.

    The first start reads and decodes each file once, in all processes of the run, for what is known of decoded images,
    too: which cannot be read, what became of them, and exact statistics. The digest is that of the files' bytes.

    Args:
        size: side of the images in pixels.
        cache: folder for the indices.
        orientation: as in `decode`.

    Raises:
        ConfigError: no image can be read.
    """
    pieces = [Part(part.folder, part.files[i : i + PER_INDEX]) for i in range(0, len(part.files), PER_INDEX)]
    shards = [
        Files(part.folder.resolve(), tuple(file.path for file in piece.files), listing_hash(piece, 0))
        for piece in pieces
    ]
    found = index_shards(shards, cache, Fields(size=size, orientation=orientation))
    faults = {i * PER_INDEX + int(key): why for i, index in enumerate(found) for key, why in index.faults.items()}
    if len(faults) == len(part.files):
        raise none_readable(part, faults[0])
    seen: dict[str, Seen] = {}
    for shard, index in zip(shards, found, strict=True):
        for what, of_index in index.seen.items():
            known = seen.setdefault(what, Seen(n=0, first=[]))
            known["n"] += of_index["n"]
            known["first"] += [shard.paths[int(key)] for key in of_index["first"]]
    levels = torch.tensor([index.levels for index in found]).sum(0)
    told = [size, *([] if orientation else ["as stored"]), *(index.digest for index in found)]
    digest = hashlib.sha256(repr(told).encode()).hexdigest()
    images = StoredImages(found, size=size, orientation=orientation)
    return SplitImages(images.as_tensor(), faults, stats_of_levels(levels), digest, seen)
