"""Where each image of a shard lies, what its bytes hash to, and its labels: an array that is mapped into memory."""

import hashlib
import json
import random
import warnings
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm

from contrastive.dataset.folder.decode import decode
from contrastive.dataset.shard.sample import NAMED, Fields, Sample, Value, read_sample
from contrastive.dataset.shard.tar import samples
from contrastive.files import atomic, content_of, kept
from contrastive.listing.found import Seen, shortened

FORMAT = 4  # of the index: raise it when the same shard would be indexed otherwise
# label and bias are places in `Facts.label` and `Facts.bias`; -1 = none
ENTRY = np.dtype([("content", "<u8"), ("offset", "<u8"), ("label", "<i4"), ("bias", "<i4")])
NO_IMAGE = "no file of its key, which ends at the first dot, is an image by its suffix"
CHUNK = 512  # samples that are read at once
Entries = npt.NDArray[np.void]


class Facts(TypedDict):
    """What the .json file beside the entries tells of a shard."""

    n: int
    digest: str  # sha256 of the entries and of what their labels and biases are
    faults: dict[str, str]  # key of each image that cannot be read and is left out, and the reason
    label: list[Value]
    bias: list[Value]
    fields: list[str]  # some of those of key.json, among them that of the label
    seen: dict[str, Seen]  # what became of images


class Index(NamedTuple):
    """One shard."""

    shard: Path
    entries: Entries  # (n,) of ENTRY, mapped
    facts: Facts


def index_shards(shards: Sequence[Path], cache: Path | None, fields: Fields) -> list[Index]:
    """The index of every shard, built where it is missing. Processes that call this at once share the work.

    Args:
        cache: folder for indices of shards that have none beside them; None = beside the shards.

    Raises:
        ConfigError: a shard cannot be read, has two images with one key, or a label that is no whole number or word.
    """
    beside = {shard: _path(shard, None, fields) for shard in shards}
    paths = {
        shard: path if cache is None or path.exists() else _path(shard, cache, fields) for shard, path in beside.items()
    }
    is_done = all(path.exists() for path in paths.values())
    some_order = random.Random().sample(shards, len(shards))  # others, who index the same shards, work at other ones
    bar = tqdm(some_order, desc="indexing", unit="shard", mininterval=1, disable=is_done)
    found = {shard: _indexed(shard, paths[shard], fields) for shard in bar}
    return [found[shard] for shard in shards]


def _indexed(shard: Path, path: Path, fields: Fields) -> Index:
    """The index of a shard, kept in the .json file of this path and the .npy file beside it."""

    def entries() -> Entries:
        mapped: Entries = np.load(path.with_suffix(".npy"), mmap_mode="r")
        return mapped

    def make() -> Facts:
        table, facts = _examined(shard, fields)
        with atomic(path.with_suffix(".npy"), alone=True) as part, part.open("wb") as out:
            np.save(out, table)
        return facts

    facts = kept(path, Facts, make, is_whole=lambda facts: len(entries()) == facts["n"])
    return Index(shard, entries(), facts)


def _path(shard: Path, cache: Path | None, fields: Fields) -> Path:
    """The .json file of the index. In a cache it is named after path, size and time of the shard; beside the shard,
    with which it is copied, after its size."""
    info = shard.stat()
    where = () if cache is None else (str(shard.resolve()), info.st_mtime_ns)
    name = hashlib.sha256(repr((FORMAT, *where, info.st_size, *fields)).encode()).hexdigest()[:16]
    return (cache or shard.parent) / f"{shard.stem}-{name}.json"


def _examined(shard: Path, fields: Fields) -> tuple[Entries, Facts]:
    """Read a shard once; what cannot be decoded is left out here, once and for all: the number of rows is fixed."""
    entries, faults = list[tuple[int, ...]](), dict[str, str]()
    labels, biases, names = dict[Value, int](), dict[Value, int](), set[str]()
    seen = defaultdict[str, list[str]](list)
    quiet = warnings.catch_warnings(action="ignore")  # of Pillow, which name no file: bombs, damaged metadata
    with quiet, ThreadPoolExecutor(torch.get_num_threads()) as pool, shard.open("rb") as file:
        members = samples(shard)
        while chunk := [(key, read_sample(file, key, own, fields, shard)) for key, own in islice(members, CHUNK)]:
            faulty = pool.map(_fault, [sample for _, sample in chunk])
            for (key, sample), (fault, what) in zip(chunk, faulty, strict=True):
                names |= {name for name in sample.fields if len(names) < NAMED or name == fields.label}
                if fault is not None or sample.raw is None:
                    faults[key] = str(fault)
                    continue
                label, bias = _number(sample.label, labels), _number(sample.bias, biases)
                entries.append((content_of(sample.raw), sample.offset, label, bias))
                for each in what:
                    seen[each].append(f"{key} in {shard.name}")
    table, values = np.array(entries, ENTRY), [list(labels), list(biases)]
    digest = hashlib.sha256(table.tobytes() + json.dumps(values).encode()).hexdigest()
    return table, Facts(
        n=len(table), digest=digest, faults=faults, label=values[0], bias=values[1],
        fields=sorted(names), seen=shortened(seen),
    )  # fmt: skip


def _number(value: Value | None, known: dict[Value, int]) -> int:
    """The place of a value among those that are known; a new one is added at the end."""
    return -1 if value is None else known.setdefault(value, len(known))


def _fault(sample: Sample) -> tuple[str | None, list[str]]:
    """Why a sample has no image that can be read, and what became of it."""
    seen: list[str] = []
    if sample.raw is None:
        return f"{NO_IMAGE} ({', '.join(sample.suffixes)})", seen
    if not sample.raw:
        return "it is empty, or could not be read", seen
    pixels = decode(sample.raw, 1, seen=seen)
    return pixels if isinstance(pixels, str) else None, seen
