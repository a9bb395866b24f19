"""The images of a folder packed as the bytes that they are, where decoding them all would fill a disk."""

import hashlib
from pathlib import Path

import torch

from contrastive.dataset.folder.bands import RGB_8, common_kind
from contrastive.dataset.folder.cache import DecodedImages, is_decoded, listing_hash
from contrastive.dataset.folder.layout import ImageFile, Part
from contrastive.dataset.shard.images import StoredImages
from contrastive.dataset.shard.pack import pack
from contrastive.dataset.shard.sample import Fields
from contrastive.dataset.splits import stats_of_levels
from contrastive.errors import ConfigError

LARGE = 20e9  # bytes of decoded images above which they are packed
PER_SHARD = 4096  # images


def is_packed(choice: bool | str, parts: list[Part], *, size: int, cache: Path, channels: int | None) -> bool:
    """Whether to pack the images; "auto": if they are RGB of 8 bits, large, and not decoded already.

    Raises:
        ConfigError: images of another kind are asked to be packed.
    """
    is_large = sum(len(part.files) for part in parts) * 3 * size * size > LARGE
    if choice is False or (choice == "auto" and not is_large):
        return False
    kind = common_kind([parts[0].folder / file.path for file in parts[0].files], channels)
    if choice is True and kind != RGB_8:
        raise ConfigError(
            f"dataset.packed=true is for RGB images, and these have {kind}: try dataset.packed=false dataset.frame=null"
        )
    is_done = all(is_decoded(part, size=size, cache=cache, channels=channels) for part in parts)
    return choice is True or (kind == RGB_8 and not is_done)


def packed_images(part: Part, *, size: int, cache: Path) -> DecodedImages:
    """The images of a split in their order: packed once into shards below `cache`, decoded when they are read.

    The first start decodes each image once, in all processes of the run, for what `load_images` knows, too: which
    images cannot be read, and exact statistics. The same files at another size are only decoded again. The digest is
    that of the bytes.

    Args:
        size: side of the decoded images in pixels.

    Raises:
        ConfigError: no image can be read, or the disk of `cache` has too little space.
    """
    bare = Part(part.folder, [ImageFile(file.path) for file in part.files])  # labels may change, the bytes do not
    folder = cache / f"packed-{listing_hash(part, size=0)}"
    found = pack(bare, folder, Fields(size=size), per_shard=PER_SHARD)
    faults = {int(key): why for index in found for key, why in index.faults.items()}
    if len(faults) == len(part.files):
        raise ConfigError(
            f"none of the {len(part.files)} images in {part.folder} can be read ({faults[0]}): replace them, or try "
            "another dataset.root=PATH"
        )
    levels = torch.tensor([index.levels for index in found]).sum(0)
    digest = hashlib.sha256("".join([str(size), *(index.digest for index in found)]).encode()).hexdigest()
    images = StoredImages(found, size=size, remedy=f"try rm -r {folder}, and the images are packed again")
    return DecodedImages(images.as_tensor(), faults, stats_of_levels(levels), digest, seen={})
