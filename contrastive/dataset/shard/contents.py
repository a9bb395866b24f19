"""What all shards of a data set hold together: classes, biases, the labels of each split, and the report of it."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from contrastive.dataset.shard.index import Index
from contrastive.dataset.shard.sample import NAMED, Value
from contrastive.dataset.shard.tar import beside, names_of_files
from contrastive.listing.found import CANNOT_BE_READ, seen_notes
from contrastive.text import counted

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
    return index.facts["labels"] if column == "label" else index.facts["biases"]


def names_of(values: Sequence[Value], index: Index, file: str) -> tuple[str, ...]:
    """The values as text; numbers by their line, from 0, of a file beside the shards that has one for each."""
    lines = [
        line.strip() for line in (beside(index.shard, file, above=True) or b"").decode(errors="replace").splitlines()
    ]
    if not all(isinstance(value, int) and 0 <= value < len(lines) for value in values):
        return tuple(map(str, values))
    named = {value: lines[value] for value in values if isinstance(value, int)}
    twice = Counter(named.values())
    return tuple(name if twice[name] == 1 and name else f"{name} {value}".strip() for value, name in named.items())


def left_out(indices: Sequence[Index]) -> dict[str, list[str]]:
    """{reason: images that are left out}, by the indices alone: no shard is read."""
    found = defaultdict[str, list[str]](list)
    for index in indices:
        files = names_of_files(index.shard) if index.facts["faults"] else {}
        for key, why in index.facts["faults"].items():
            found[CANNOT_BE_READ].append(f"{files.get(key, key)} in {index.shard.name}: {why}")
    return found


def notes(indices: Sequence[Index], classes: tuple[str, ...]) -> tuple[str, ...]:
    """Where labels are from, and what became of images."""
    n = sum(len(index.entries) for index in indices)
    return (*_sources(indices, classes), *seen_notes([index.facts["seen"] for index in indices], n))


def _sources(indices: Sequence[Index], classes: tuple[str, ...]) -> Iterator[str]:
    sources = sum((Counter(index.facts["sources"]) for index in indices), Counter[str]())
    fields = sorted({name for index in indices for name in index.facts["fields"]})
    if sources:
        named = "" if set(classes) <= set(map(str, values_of(indices, "label"))) else ", their names from classes.txt"
        yield f"labels are from {', '.join(f'{source} ({n:,})' for source, n in sources.items())}{named}"
    if n := sum(index.facts["captions"] for index in indices):
        yield f"{counted(n, 'image')} with a caption, key.txt, which is not read: labels are from key.cls or key.json"
    if fields and not sources:
        yield f"no image has a label; dataset.label=FIELD takes one of {', '.join(fields[:NAMED])}"
