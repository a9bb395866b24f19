"""Write images into tar shards, as the bytes that they are, and index them."""

import hashlib
import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tqdm import tqdm

from contrastive.dataset.folder.layout import ImageFile, Part
from contrastive.dataset.folder.pixels import listing_hash
from contrastive.dataset.shard.index import Index, index_shards
from contrastive.dataset.shard.order import Order
from contrastive.dataset.shard.sample import Fields
from contrastive.dataset.shard.tar import NAMES, write_shard
from contrastive.errors import ConfigError
from contrastive.files import file_hash, locked, write_text
from contrastive.listing.found import Listing
from contrastive.listing.names import PICTURES
from contrastive.text import as_typed, printable

LEFT_OUT = "left_out.txt"
AT_ONCE = 32  # files that are read at once
AHEAD = 256  # files that are read before they are needed


def _shards(part: Part, folder: Path, fields: Fields, per_shard: int) -> list[Index]:
    """The images in shards of `folder`, with an index beside each; what an earlier call wrote is kept.

    The key of an image is its number in `part`; a .names.json beside each shard tells its file. A label is written as
    key.cls, a bias as key.json. The index leaves out what cannot be decoded. Processes that call this at once share the
    work.
    """
    shards = [folder / f"{i:05}.tar" for i in range(-(-len(part.files) // per_shard))]
    missing = [i for i, shard in enumerate(shards) if not shard.exists()]
    random.Random().shuffle(missing)  # others, who pack the same folder, work at other shards
    for i in tqdm(missing, desc="packing", unit="shard", mininterval=1, disable=not missing):
        with locked(folder / f".{shards[i].name}.lock"):
            if not shards[i].exists():
                rows = range(i * per_shard, min((i + 1) * per_shard, len(part.files)))
                names = {_key(row): printable(part.files[row].path) for row in rows}
                write_text(shards[i].with_suffix(NAMES), json.dumps(names))
                write_shard(shards[i], _members(part, rows))
    return index_shards(shards, None, fields)


def pack(listed: Listing[Part], dest: Path, *, per_shard: int = 10_000) -> dict[str, list[Index]]:
    """The images that were listed, as shards of `dest`/train and `dest`/test, rows shuffled.

    Validation images beside test images add `dest`/val. `dest`/classes.txt has the classes in the order of their
    numbers, as biases.txt has the biases if there are any, and `dest`/SHA256SUMS the hashes of the shards. Files that
    cannot be decoded are left out by the index, and named in `dest`/left_out.txt.

    Args:
        per_shard: images of a shard.

    Returns:
        {train, val, test: the index of each shard}

    Raises:
        ConfigError: shards of another source in `dest`, or a file cannot be read.
    """
    _claim(dest, listed, per_shard)
    found, left_out = {}, list[str]()
    for name, part in listed.splits.items():
        order = Order(len(part.files), "pack").rows(0, len(part.files)).tolist()
        shuffled = Part(part.folder, [part.files[i] for i in order])
        found[name] = _shards(shuffled, dest / name, Fields(bias="bias" if listed.biases else None), per_shard)
        for key, why in ((key, why) for index in found[name] for key, why in index.facts["faults"].items()):
            left_out.append(printable(f"{part.folder / shuffled.files[int(key)].path}: {why}") + "\n")
    shards = [index.shard for indices in found.values() for index in indices]
    sums = [f"{file_hash(shard)}  {shard.relative_to(dest)}\n" for shard in tqdm(shards, desc="hashing", unit="shard")]
    for title, names in (("classes", listed.classes), ("biases", listed.biases)):
        if names or title == "classes":
            write_text(dest / f"{title}.txt", "".join(f"{printable(name)}\n" for name in names))
    if left_out:
        write_text(dest / LEFT_OUT, "".join(sorted(left_out)))
    write_text(dest / "SHA256SUMS", "".join(sums))
    return found


def _claim(dest: Path, listed: Listing[Part], per_shard: int) -> None:
    """Refuse to add to shards of other files, classes or splits: the shards of one split alone number the classes."""
    parts = {name: (listing_hash(part, size=per_shard), part.label, part.bias) for name, part in listed.splits.items()}
    source = hashlib.sha256(repr((parts, listed.classes, listed.biases)).encode()).hexdigest()
    path = dest / ".source"
    before = path.read_text() if path.exists() else None
    if before != source and (before is not None or any(dest.glob("*/*.tar"))):
        raise ConfigError(f"{dest} holds shards of other files: try another folder, or rm -r {as_typed(dest)}")
    write_text(path, source)


def _members(part: Part, rows: range) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file of a shard."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for start in range(rows.start, rows.stop, AHEAD):
            some = part.files[start : min(start + AHEAD, rows.stop)]
            contents = pool.map(Path.read_bytes, [part.folder / file.path for file in some])
            for row, (file, content) in enumerate(zip(some, contents, strict=True), start):
                yield from _sample(row, file, content)


def _sample(row: int, file: ImageFile, content: bytes) -> Iterator[tuple[str, bytes]]:
    suffix = Path(file.path).suffix.lower()
    yield f"{_key(row)}{suffix if suffix in PICTURES else '.jpg'}", content  # decoders go by the content
    if file.label >= 0:
        yield f"{_key(row)}.cls", str(file.label).encode()
    if file.bias >= 0:
        yield f"{_key(row)}.json", json.dumps({"bias": file.bias}).encode()


def _key(row: int) -> str:
    return f"{row:09}"
