"""Where each image of a shard lies, what its bytes hash to, and its labels: an array that is mapped into memory."""

import hashlib
import io
import json
import os
import re
import warnings
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from tqdm import tqdm

from contrastive.dataset.folder.decode import decode
from contrastive.dataset.shard.sample import NAMED, Fields, Sample, Value, read_sample
from contrastive.dataset.shard.store import Files, Shard, read_files, stem
from contrastive.dataset.shard.tar import samples
from contrastive.errors import ConfigError
from contrastive.files import atomic, claimed, write_text
from contrastive.listing.found import Seen, shortened

FORMAT = 2  # of the index: raise it when the same shard would be indexed otherwise
# label and bias are places in `Index.labels` and `Index.biases`; -1 = none
ENTRY = np.dtype([("offset", "<u8"), ("length", "<u4"), ("crc", "<u4"), ("label", "<i4"), ("bias", "<i4")])
NO_IMAGE = "no file of its key, which ends at the first dot, is an image by its suffix"
CHUNK = 512  # samples that are read at once
Entries = npt.NDArray[np.void]
Chunks = Generator[list[tuple[str, Sample]], None, None]  # key and sample of all that a shard holds, some at a time


class Index(NamedTuple):
    """One shard."""

    shard: Shard
    entries: Entries  # (n,) of ENTRY, mapped
    digest: str  # sha256 of the entries and of what their labels and biases are
    faults: dict[str, str]  # key of each image that cannot be read and is left out, and the reason
    labels: list[Value]
    biases: list[Value]
    sources: dict[str, int]  # where labels are from: {`key.cls`, or a field of key.json: of how many images}
    fields: list[str]  # some of those of key.json, among them that of the label
    levels: list[list[int]] | None  # (3, 256), how often a channel has a level; None if they were not counted
    captions: int = 0  # samples with key.txt, which is not read
    seen: dict[str, Seen] = {}  # what became of images; an index of an earlier version does not tell


def index_shards(
    shards: Sequence[Shard], cache: Path | None, fields: Fields, *, make: Callable[[int], None] | None = None
) -> list[Index]:
    """The index of every shard, built where it is missing. Processes that call this at once share the work.

    Args:
        cache: folder for indices of shards that have none beside them; None = beside the shards, which are files.
        make: writes the shard of a number, if that is missing, too.

    Raises:
        ConfigError: a shard cannot be read, has two images with one key, or a label that is no whole number or word.
    """
    found: dict[int, Index] = {}
    for i, shard in enumerate(shards):
        if _exists(shard) and (index := _read(shard, None, fields) or _read(shard, cache, fields)):
            found[i] = index
    missing = [i for i in range(len(shards)) if i not in found]
    is_shown = missing and os.environ.get("RANK", "0") == "0"  # of several processes the first one shows a bar
    with tqdm(total=len(missing), desc="indexing", unit="shard", mininterval=1, disable=not is_shown) as bar:
        for wait in (False, True):  # first those that no other process works at
            for i in missing:
                if i not in found and (index := _indexed(i, shards[i], cache, fields, make=make, wait=wait)):
                    found[i] = index
                    bar.update()
    return [found[i] for i in range(len(shards))]


def _exists(shard: Shard) -> bool:
    """Whether a shard is there; what is no file of its own was when it was looked up."""
    return not isinstance(shard, Path) or shard.exists()


def _indexed(
    i: int, shard: Shard, cache: Path | None, fields: Fields, *, make: Callable[[int], None] | None, wait: bool
) -> Index | None:
    """The index of a shard, from disk or built; None if another process works at it and this one is not to wait."""
    place = _folder(shard, cache)
    place.mkdir(parents=True, exist_ok=True)
    with claimed(place / f".{shard.name}.lock", wait=wait) as lock:
        if lock is None:
            return None
        own = re.compile(rf"\.{re.escape(stem(shard))}(-[0-9a-f]{{16}})?\.(tar|npy|json|names\.json)\.\d+\.part")
        for left in (part for part in place.glob(".*.part") if own.fullmatch(part.name)):
            left.unlink()  # of a process that was killed: the lock is held
        if make is not None and not _exists(shard):
            make(i)
        return _read(shard, cache, fields) or _build(shard, cache, fields)


def _files(shard: Shard, cache: Path | None, fields: Fields) -> tuple[Path, Path]:
    """The array and the .json beside it. In a cache they are named after path, size and time of the shard, or after
    folder, number and tag of files; beside the shard, with which they are copied, after its size."""
    where: tuple[str | int, ...] = ()
    try:
        if not isinstance(shard, Path):
            where, size = (str(shard), shard.tag), shard.size
        else:
            info = shard.stat()
            where, size = () if cache is None else (str(shard.resolve()), info.st_mtime_ns), info.st_size
        name = _stem(shard, size, fields, *where)
    except OSError as error:
        raise ConfigError(f"{shard} cannot be read ({error.strerror}): try another dataset.root=PATH") from error
    folder = _folder(shard, cache)
    return folder / f"{name}.npy", folder / f"{name}.json"


def _folder(shard: Shard, cache: Path | None) -> Path:
    """Where the index of a shard is: without a cache beside the file that it is."""
    return cache or Path(str(shard)).parent


def _stem(shard: Shard, size: int, fields: Fields, *where: str | int) -> str:
    told = fields if not fields.orientation else fields[:-1]  # as indices that lie beside shards are called
    key = repr((FORMAT, *where, size, *told))
    return f"{stem(shard)}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def _read(shard: Shard, cache: Path | None, fields: Fields) -> Index | None:
    """The index that an earlier start built; None if there is none, or it is not whole."""
    if cache is None and not isinstance(shard, Path):
        return None  # nothing lies beside loose files
    array, facts_path = _files(shard, cache, fields)
    try:
        facts = json.loads(facts_path.read_bytes())
        entries = np.load(array, mmap_mode="r")
        is_whole = entries.dtype == ENTRY and len(entries) == facts.pop("n")
        return Index(shard, entries, **facts) if is_whole else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _build(shard: Shard, cache: Path | None, fields: Fields) -> Index:
    """Read a shard once; what cannot be decoded is left out here, once and for all: the number of rows is fixed."""
    array, facts_path = _files(shard, cache, fields)
    with closing(_loose(shard) if isinstance(shard, Files) else _in_tar(shard, fields)) as chunks:
        table, facts = _examined(chunks, fields)
    with atomic(array) as part, part.open("wb") as out:
        np.save(out, table)
    write_text(facts_path, json.dumps(facts))  # last: marks the array as complete
    index = _read(shard, cache, fields)
    assert index is not None
    return index


def _in_tar(shard: Path, fields: Fields) -> Chunks:
    with shard.open("rb") as file:
        found = samples(shard)
        while chunk := list(islice(found, CHUNK)):
            yield [(key, read_sample(file, key, members, fields, shard)) for key, members in chunk]


def _loose(files: Files) -> Chunks:
    """The key is the number."""
    found = enumerate(read_files(files.folder / path for path in files.paths))
    while chunk := list(islice(found, CHUNK)):
        yield [(str(i), Sample(i, raw)) for i, raw in chunk]


def _examined(chunks: Chunks, fields: Fields) -> tuple[Entries, dict[str, Any]]:
    """The entries of samples, and the facts about them."""
    entries, faults, levels = list[tuple[int, ...]](), dict[str, str](), torch.zeros(3, 256, dtype=torch.int64)
    labels, biases, sources, names = dict[Value, int](), dict[Value, int](), Counter[str](), set[str]()
    seen, captions = defaultdict[str, list[str]](list), 0
    quiet = warnings.catch_warnings(action="ignore")  # of Pillow, which name no file: bombs, damaged metadata
    with quiet, ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for chunk in chunks:
            decoded = pool.map(lambda item: _decode(item[1].raw, fields), chunk)
            for (key, sample), (counts, what) in zip(chunk, decoded, strict=True):
                captions += "txt" in sample.suffixes
                names |= {name for name in sample.fields if len(names) < NAMED or name == fields.label}
                if isinstance(counts, str) or sample.raw is None:
                    faults[key] = str(counts or f"{NO_IMAGE} ({', '.join(sample.suffixes)})")
                    continue
                label, bias = _number(sample.label, labels), _number(sample.bias, biases)
                entries.append((sample.offset, len(sample.raw), zlib.crc32(sample.raw), label, bias))
                sources[sample.source] += sample.label is not None
                for each in what:
                    seen[each].append(key)
                if counts is not None:
                    levels += counts
    table = np.array(entries, ENTRY)
    values = [list(labels), list(biases)]
    return table, {
        "n": len(table),
        "digest": hashlib.sha256(table.tobytes() + json.dumps(values).encode()).hexdigest(),
        "faults": faults,
        "labels": values[0],
        "biases": values[1],
        "sources": +sources,
        "fields": sorted(names),
        "levels": None if fields.size is None else levels.tolist(),
        "captions": captions,
        "seen": shortened(seen),
    }


def _number(value: Value | None, known: dict[Value, int]) -> int:
    """The place of a value among those that are known; a new one is added at the end."""
    return -1 if value is None else known.setdefault(value, len(known))


def _decode(raw: bytes | None, fields: Fields) -> tuple[Tensor | str | None, list[str]]:
    """How often each channel has each level, if a size is given, or the reason why the bytes are no image; and what
    became of it."""
    seen: list[str] = []
    if not raw:
        return None if raw is None else "it is empty, or could not be read", seen
    pixels = decode(io.BytesIO(raw), fields.size or 1, orientation=fields.orientation, seen=seen)
    if isinstance(pixels, str):
        return pixels, seen
    if fields.size is None:
        return None, seen
    return torch.from_numpy(np.stack([np.bincount(c.ravel(), minlength=256) for c in pixels])), seen
