"""What a data set was found to hold: one listing and one report for folders, tables, shards and arrays."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypedDict, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from contrastive.text import counted, listed, printable

NAMED = 3  # files that a reason names
MOST_COMPARED = 10**7  # images, in seconds
CLASSES = 10  # that a line lists
CANNOT_BE_READ = "cannot be read"  # why images are left out that no decoder takes
S = TypeVar("S", bound="Labeled")


class Seen(TypedDict):
    """How many images something was done to, and the first of them by name."""

    n: int
    first: list[str]


def shortened(names: Mapping[str, Sequence[str]]) -> dict[str, Seen]:
    """{what: how many, and the first of them} of {what: names}."""
    return {what: {"n": len(own), "first": [*own[:NAMED]]} for what, own in names.items()}


def seen_notes(parts: Iterable[Mapping[str, Seen]], n: int) -> list[str]:
    """A sentence for all that was done to some of n images."""
    merged = dict[str, Seen]()
    for what, each in (item for seen in parts for item in seen.items()):
        known = merged.setdefault(what, {"n": 0, "first": []})
        known["n"] += each["n"]
        known["first"] += each["first"]
    return [f"{each['n']:,} of {n:,} images are {what} ({_first(each)})" for what, each in sorted(merged.items())]


def _first(seen: Seen) -> str:
    """`a.jpg, b.jpg, c.jpg, ...`"""
    names = seen["first"][:NAMED]
    return ", ".join([*names, *(["..."] if seen["n"] > len(names) else [])])


@dataclass(frozen=True, kw_only=True)
class Found:
    """Printed when a run starts for the first time, kept with it, and shown by `contrastive look`.

    Attributes:
        splits: {train, val, test: {class: how many images were taken}}; '' is the class of images without a label.
        places: {train, val, test: where its images are from}, such as `Train/` or `a fixed fifth of each class`.
        left_out: {reason: names of the files}, such as {"no image by its suffix": ["a.heic"]}.
        notes: a sentence each of what the pixels are, or became: 12 turned by their EXIF orientation.
    """

    splits: Mapping[str, Mapping[str, int]]
    places: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, list[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        """For environment.json: plain containers, of the files that are left out the first names and the number."""
        return {
            "splits": {name: dict(classes) for name, classes in self.splits.items()},
            "places": dict(self.places),
            "left_out": shortened(self.left_out),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        """A line for each split, for the classes, for each reason and for each note."""
        lines = []
        for name, classes in self.splits.items():
            place = f", {self.places[name]}" if name in self.places else ""
            lines.append(f"{name:<6} {sum(classes.values()):,} images{place}")
        total = sum((Counter(classes) for classes in self.splits.values()), Counter())
        names = list(dict.fromkeys(name for classes in self.splits.values() for name in classes if name))
        lines += _named("classes", {name: total[name] for name in names})
        lines += [f"left out: {each['n']:,}, {why} ({_first(each)})" for why, each in shortened(self.left_out).items()]
        return "\n".join(map(printable, [*lines, *self.notes]))  # names of files and classes come from strangers


class Labeled(Protocol):
    """Class number of each image, -1 = none, and bias number, if there are biases."""

    @property
    def label(self) -> ArrayLike: ...

    @property
    def bias(self) -> ArrayLike | None: ...


class Listing(NamedTuple, Generic[S]):
    """What a data set holds, whatever told it: folders, a table, an index of shards or arrays.

    A split is the files that were listed, and later their images.
    """

    splits: dict[str, S]  # train and test, and val if there is such
    classes: tuple[str, ...]
    biases: tuple[str, ...] = ()
    places: Mapping[str, str] = MappingProxyType({})  # see `Found`, as those below
    left_out: Mapping[str, list[str]] = MappingProxyType({})
    notes: tuple[str, ...] = ()

    def found(self) -> Found:
        """The report on it."""
        total = Counter[str]()
        for split in self.splits.values():
            total += Counter({} if split.bias is None else _counts(split.bias, self.biases))
        told = _named("biases", {name: total[name] for name in self.biases if total[name]})
        splits = {name: _counts(split.label, self.classes) for name, split in self.splits.items()}
        return Found(splits=splits, places=self.places, left_out=self.left_out, notes=(*told, *self.notes))


def _counts(number: ArrayLike, names: Sequence[str]) -> dict[str, int]:
    """{name: how many}, those of -1 under ''."""
    counts = np.bincount(np.asarray(number, np.int64) + 1, minlength=len(names) + 1).tolist()
    return {name: n for name, n in zip(("", *names), counts, strict=True) if n}


def copy_notes(
    content: Mapping[str, NDArray[np.uint64]],
    splits: Mapping[str, Labeled],
    names: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[str]:
    """A sentence of evaluated images that are training images, too, and of images with two labels.

    Args:
        content: a hash of each image of each split.
        splits: with the label of each image.
        names: of each image, where they are known.
    """
    told = list[str]()
    if sum(map(len, content.values())) > MOST_COMPARED:
        return told
    for split, own in content.items():
        again = np.flatnonzero(np.isin(own, content["train"])) if split != "train" else ()
        if len(again):
            first = [names[split][i] for i in again[:NAMED]] if names else []
            shown = f" ({_first(Seen(n=len(again), first=first))})" if names else ""
            told.append(f"{len(again):,} of {len(own):,} {split} images are training images, too{shown}")
    every = np.concatenate([*content.values()])
    classes = np.concatenate([np.asarray(splits[split].label) for split in content])
    every, classes = every[classes >= 0], classes[classes >= 0]
    order = np.lexsort((classes, every))
    every, classes = every[order], classes[order]
    if n := len(np.unique(every[1:][(every[1:] == every[:-1]) & (classes[1:] != classes[:-1])])):
        told.append(f"{counted(n, 'image')} with more than one label")
    return ["; ".join(told)] if told else []


def _named(what: str, counts: Mapping[str, int]) -> list[str]:
    """`2 classes: ant (3), bee (5)`; nothing where there are none."""
    each = [f"{name} ({n:,})" for name, n in counts.items()]
    return [f"{len(counts)} {what}: {listed(each, CLASSES)}"] if counts else []
