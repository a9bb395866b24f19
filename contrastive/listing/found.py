"""What a data set was found to hold: one report for folders, tables, shards and arrays."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from contrastive.text import printable

NAMED = 3  # files that a reason names
CLASSES = 10  # that a line lists


class Seen(TypedDict):
    """How many images something was done to, and the first of them by name."""

    n: int
    first: list[str]


def seen_notes(parts: Sequence[Mapping[str, Seen]], n: int) -> list[str]:
    """A sentence for all that was done to some of n images."""
    notes = []
    for what in sorted({what for seen in parts for what in seen}):
        found = [seen[what] for seen in parts if what in seen]
        first, count = [name for each in found for name in each["first"]], sum(each["n"] for each in found)
        more = ", ..." if count > len(first[:NAMED]) else ""
        notes.append(f"{count:,} of {n:,} images are {what} ({', '.join(first[:NAMED])}{more})")
    return notes


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
            "left_out": {why: {"n": len(names), "first": names[:NAMED]} for why, names in self.left_out.items()},
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        """A line for each split, for the classes, for each reason and for each note."""
        lines = []
        for name, classes in self.splits.items():
            place = f", {self.places[name]}" if name in self.places else ""
            lines.append(f"{name:<6} {sum(classes.values()):,} images{place}")
        names = list(dict.fromkeys(name for classes in self.splits.values() for name in classes if name))
        if names:
            total = sum((Counter(classes) for classes in self.splits.values()), Counter())
            shown = ", ".join(f"{name} ({total[name]:,})" for name in names[:CLASSES])
            more = f" and {len(names) - CLASSES} more" if len(names) > CLASSES else ""
            lines.append(f"{len(names)} classes: {shown}{more}")
        for why, files in self.left_out.items():
            more = ", ..." if len(files) > NAMED else ""
            lines.append(f"left out: {len(files):,}, {why} ({', '.join(files[:NAMED])}{more})")
        return "\n".join(map(printable, [*lines, *self.notes]))  # names of files and classes come from strangers
