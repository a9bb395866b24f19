"""What all shards of a data set hold together: classes, biases, the labels of each split, and the report of it."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from contrastive.dataset.shard.index import NO_IMAGE, Index
from contrastive.dataset.shard.sample import LABEL, NAMED, Value, choice
from contrastive.dataset.shard.store import beside, names_of_files
from contrastive.errors import ConfigError
from contrastive.listing.found import CANNOT_BE_READ, Seen, seen_notes
from contrastive.text import counted, printable

Column = Literal["label", "bias"]


def values_of(indices: Sequence[Index], column: Column) -> list[Value]:
    """The labels or biases that occur, numbers before words."""
    found = {value for index in indices for value in _own(index, column)}
    return sorted(found, key=lambda value: (isinstance(value, str), value))


def numbers(indices: Sequence[Index], column: Column, values: Sequence[Value]) -> Tensor:
    """The place of each image's label or bias among the values, (n,) int64; -1 = none."""
    places = {value: i for i, value in enumerate(values)}
    parts = []
    for index in indices:
        here = np.array([*(places[value] for value in _own(index, column)), -1])  # an entry of -1 is the last
        parts.append(here[index.entries[column]])
    return torch.from_numpy(np.concatenate(parts))


def _own(index: Index, column: Column) -> list[Value]:
    return index.labels if column == "label" else index.biases


def names_of(values: Sequence[Value], index: Index, file: str) -> tuple[str, ...]:
    """The values as text; numbers by their line, from 0, of a file beside the shards that has one for each."""
    raw = beside(index.shard, file, above=True) if values and all(isinstance(value, int) for value in values) else None
    lines = [printable(line.strip()) for line in (raw or b"").decode(errors="replace").splitlines()]
    if not all(isinstance(value, int) and 0 <= value < len(lines) for value in values):
        return tuple(printable(str(value)) for value in values)
    named = {value: lines[value] for value in values if isinstance(value, int)}
    twice = Counter(named.values())
    return tuple(name if twice[name] == 1 and name else f"{name} {value}".strip() for value, name in named.items())


def check_label(label: str, indices: Sequence[Index]) -> None:
    """Raise ConfigError if a field is asked for that no image has."""
    fields = {name for index in indices for name in index.fields}
    if label not in (LABEL, *fields):
        raise ConfigError(f"no image has the field {label} in its key.json: {choice('label', label, fields)}")


def left_out(indices: Sequence[Index]) -> dict[str, list[str]]:
    """{reason: images that are left out}, by the indices alone: no shard is read."""
    found = defaultdict[str, list[str]](list)
    for index in indices:
        files = names_of_files(index.shard) if index.faults else {}
        for key, why in index.faults.items():
            reason = NO_IMAGE if why.startswith(NO_IMAGE) else CANNOT_BE_READ
            said = why.removeprefix(NO_IMAGE) if reason == NO_IMAGE else f": {why}"
            found[reason].append(f"{files.get(key, key)} in {index.shard.name}{said}")
    return found


def notes(indices: Sequence[Index], classes: tuple[str, ...]) -> tuple[str, ...]:
    """Where labels are from, and what became of images."""
    return (*_sources(indices, classes), *_seen(indices))


def _seen(indices: Sequence[Index]) -> list[str]:
    """A sentence for all that was done to some images, without the advice, which names settings of folders."""
    seen = [
        {
            what.partition(":")[0]: Seen(n=each["n"], first=[f"{key} in {index.shard.name}" for key in each["first"]])
            for what, each in index.seen.items()
        }
        for index in indices
    ]
    return seen_notes(seen, sum(len(index.entries) for index in indices))


def _sources(indices: Sequence[Index], classes: tuple[str, ...]) -> Iterator[str]:
    sources = sum((Counter(index.sources) for index in indices), Counter[str]())
    fields = sorted({name for index in indices for name in index.fields})
    if sources:
        named = "" if set(classes) <= set(map(str, values_of(indices, "label"))) else ", their names from classes.txt"
        yield f"labels are from {', '.join(f'{source} ({n:,})' for source, n in sources.items())}{named}"
    if n := sum(index.captions for index in indices):
        yield f"{counted(n, 'image')} with a caption, key.txt, which is not read: labels are from key.cls or key.json"
    if fields and not sources:
        yield f"no image has a label; dataset.label=FIELD takes one of {', '.join(fields[:NAMED])}"
