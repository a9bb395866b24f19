"""The images of a folder: decoded, or read when a step needs them, where decoding all of them would fill a disk."""

import hashlib
from collections.abc import Mapping

import torch

from contrastive.dataset.folder.bands import RGB_8, common_kind
from contrastive.dataset.folder.cache import SplitImages, Wanted, listing_hash, load_images, none_readable
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


def is_decoded(choice: bool | str, parts: list[Part], wanted: Wanted) -> bool:
    """Whether to decode all images once; "auto": if they are small, or not RGB of 8 bits, and not to stay whole.

    Raises:
        ConfigError: images of another kind are asked to stay encoded, or decoded ones to stay whole.
    """
    if choice is True and wanted.frame is not None:
        raise ConfigError("dataset.frame keeps images whole, which decoded ones are not: try dataset.decoded=false")
    is_large = sum(len(part.files) for part in parts) * 3 * wanted.size**2 > LARGE
    if choice is True or (choice == "auto" and wanted.frame is None and not is_large):
        return True
    kind = common_kind(parts[0].paths, wanted.channels)
    if kind != RGB_8 and (choice is False or wanted.frame is not None):
        raise ConfigError(
            "dataset.decoded=false and dataset.frame are for RGB images, and these have "
            f"{kind}: try dataset.decoded=true dataset.frame=null"
        )
    return kind != RGB_8


def split_images(parts: Mapping[str, Part], wanted: Wanted, decoded: bool | str) -> dict[str, SplitImages]:
    """The images of each split, decoded once into files that are mapped into memory, or read from their files.

    Raises:
        ConfigError: no image of a split can be read, or a disk is too small; see also `is_decoded`.
    """
    if not is_decoded(decoded, [*parts.values()], wanted):
        return {key: loose_images(part, wanted) for key, part in parts.items()}
    images: dict[str, SplitImages] = {}
    for key, part in parts.items():
        images[key] = load_images(part, wanted, like=images["train"].kind if images else None)
    return images


def loose_images(part: Part, wanted: Wanted) -> SplitImages:
    """The images of a split in their order, of the pixels that `load_images` decodes.

    The first start reads and decodes each file once, in all processes of the run, for what is known of decoded images,
    too: which cannot be read, what became of them, and exact statistics. The digest is that of the files' bytes.

    Raises:
        ConfigError: no image can be read.
    """
    pieces = [Part(part.folder, part.files[i : i + PER_INDEX]) for i in range(0, len(part.files), PER_INDEX)]
    shards = [
        Files(part.folder.resolve(), tuple(file.path for file in piece.files), listing_hash(piece, 0))
        for piece in pieces
    ]
    found = index_shards(shards, wanted.cache, Fields(size=wanted.size, orientation=wanted.orientation))
    faults = {i * PER_INDEX + int(key): why for i, index in enumerate(found) for key, why in index.faults.items()}
    if len(faults) == len(part.files):
        raise none_readable(part, faults[0])
    seen = [
        {what: Seen(n=each["n"], first=[shard.paths[int(key)] for key in each["first"]]) for what, each in own.items()}
        for shard, own in zip(shards, (index.seen for index in found), strict=True)
    ]
    levels = torch.tensor([index.levels for index in found]).sum(0)
    told = [wanted.size, *([] if wanted.orientation else ["as stored"]), *(index.digest for index in found)]
    digest = hashlib.sha256(repr(told).encode()).hexdigest()
    images = StoredImages(found, size=wanted.size, orientation=wanted.orientation)
    return SplitImages(images.as_tensor(), faults, stats_of_levels(levels), digest, seen, images.content)
