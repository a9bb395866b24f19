"""A table of images in place of class folders: a CSV file with path, split, label and bias, as WILDS writes it."""

import csv
import os
import stat
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from contrastive.dataset.folder.columns import COLUMNS, SPLITS, guess_columns
from contrastive.dataset.folder.layout import ImageFile, Part, warn_left_out
from contrastive.errors import ConfigError
from contrastive.text import counted, printable

NAMED = 5  # lines, or values, that a sentence lists


class Row(NamedTuple):
    """What one line of a table says of one image."""

    line: int
    path: str
    split: str
    label: str
    bias: str | None


class TableOfImages(NamedTuple):
    """What a table says. Without rows of validation `val` has no files."""

    classes: tuple[str, ...]
    biases: tuple[str, ...]
    train: Part
    val: Part
    test: Part


def read_table(base: Path, path: Path, columns: Mapping[str, str | None]) -> TableOfImages:
    """Read a table.

    Args:
        base: the folder that the paths of the images start from.
        path: of the table.
        columns: {path, split, label, bias: name of the column}; None for a bias = there is none. Splits are train, val
            and test or 0, 1 and 2; labels and biases are any words, numbered in their order (of numbers by value).

    Raises:
        ConfigError: the table is missing, lacks a column, has an unknown split, a short line or an empty value, gives
            an image two splits, labels or biases, or names no training or no test images.
    """
    names = {**COLUMNS, **columns}
    for key, name in names.items():
        if key not in COLUMNS or (name is None and key != "bias"):
            known = ", ".join(COLUMNS)
            raise ConfigError(f"dataset.columns has {known} and a name for each: try 'dataset.columns={{label: y}}'")
    rows = _rows(base, path, names)
    _check_repeats(path, rows)
    classes = _in_order({row.label for row in rows})
    biases = _in_order({row.bias for row in rows if row.bias is not None})
    _show_values(path, "classes", rows, "label")
    _show_values(path, "biases", rows, "bias")
    parts: dict[str, list[ImageFile]] = {"train": [], "val": [], "test": []}
    for row in rows:
        if not (base / row.path).is_file():
            warn_left_out(base / row.path, f"{path.name} names it and it is not there")
            continue
        number = -1 if row.bias is None else biases.index(row.bias)
        parts[row.split].append(ImageFile(row.path, classes.index(row.label), number))
    for name in ("train", "test"):
        if not parts[name]:
            raise ConfigError(
                f"{path} names no {name} images that exist: try another dataset.root or dataset.columns.split"
            )
    return TableOfImages(classes, biases, *(Part(base, files) for files in parts.values()))


def _rows(base: Path, path: Path, names: Mapping[str, str | None]) -> list[Row]:
    """Every line of the table, none of which lacks a value."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would wait for ever, a device never end
            raise OSError("it is not a file")
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restkey="")  # cells beyond the header
            rows = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        there = [file.name for file in sorted(path.parent.glob("*.csv")) if file != path]
        known = f"; the tables there are {', '.join(there[:NAMED])}" if there else ""
        example = next(iter(get_close_matches(path.name, there, n=1, cutoff=0) or ["FILE.csv"]))
        raise ConfigError(f"{path} cannot be read ({error}){known}: try dataset.table={example}") from error
    header = list(reader.fieldnames or [])
    if missing := [name for name in names.values() if name is not None and name not in header]:
        raise ConfigError(
            f"{path} has no column {' and no '.join(missing)}, its columns are {', '.join(header) or 'none'}: "
            f"try {guess_columns(names, [row for _, row in rows], header, base)}"
        )
    if long := [line for line, row in rows if any(row.get("", ()))]:
        raise ConfigError(f"{path} has too many columns in {_lines(long)}: try quotes around a value with a comma")
    for key, name in names.items():
        if name is None:
            continue
        if short := [line for line, row in rows if row[name] is None]:
            raise ConfigError(f"{path} has too few columns in {_lines(short)}: try a text editor")
        if empty := [line for line, row in rows if row[name].strip().lower() in ("", "nan")]:
            raise ConfigError(f"{path} has no {key} ({name}) in {_lines(empty)}: try it without these lines")
        if key == "split" and (odd := [(line, row[name]) for line, row in rows if row[name] not in SPLITS]):
            raise ConfigError(
                f"{path} has the split {odd[0][1]!r} in line {odd[0][0]}: try 0, 1, 2 or train, val, test"
            )
    image, split, label, bias = (names[key] for key in COLUMNS)
    return [Row(line, row[image], SPLITS[row[split]], row[label], bias and row[bias]) for line, row in rows]


def _check_repeats(path: Path, rows: Sequence[Row]) -> None:
    """Refuse an image with two splits, labels or biases; say how many rows are there twice."""
    first, again = dict[str, Row](), list[tuple[Row, Row]]()
    for row in rows:
        if (before := first.setdefault(os.path.normpath(row.path), row)) is not row:
            again.append((before, row))
    for key in ("split", "label", "bias"):
        two = [(a, b) for a, b in again if getattr(a, key) != getattr(b, key)]
        if two:
            n, (a, b) = len({row.path for row, _ in two}), two[0]
            one, other = (f"{getattr(row, key)} in line {row.line}" for row in (a, b))
            raise ConfigError(
                f"{path} has {counted(n, 'image')} with {counted(2, key)} ({printable(a.path)}: {one}, {other}): "
                "try one line for each image"
            )
    if again:
        n = len({row.path for row, _ in again})
        tqdm.write(
            f"warning: {printable(path)} repeats {counted(n, 'image')} in {counted(len(again), 'line')} "
            f"({_lines([row.line for _, row in again])}): each line counts as an image"
        )


def _show_values(path: Path, title: str, rows: Sequence[Row], key: str) -> None:
    """Print the classes or biases with their counts, and warn of those that differ in their spelling alone."""
    counts = Counter(value for row in rows if (value := getattr(row, key)) is not None)
    if not counts:
        return
    names = _in_order(set(counts))
    few = [f"{printable(name)} ({counts[name]:,})" for name in names[: 2 * NAMED]]
    more = f" and {len(names) - len(few)} more" if len(names) > len(few) else ""
    tqdm.write(f"{printable(path)}: {len(names)} {title}: {', '.join(few)}{more}")
    meant = defaultdict[float | str, list[str]](list)
    for name in names:
        meant[_meaning(name)].append(name)
    for alike in (group for group in meant.values() if len(group) > 1):
        tqdm.write(
            f"warning: {' and '.join(map(repr, alike))} are different {title}: try one spelling if they are the same"
        )


def _meaning(value: str) -> float | str:
    """The same for `1`, `01` and ` 1`, and for `Cat` and `cat`."""
    try:
        return float(value)
    except ValueError:
        return value.strip().casefold()


def _lines(numbers: Sequence[int]) -> str:
    """`lines 3, 5, 9, 12, 13 and 7 more`; the header is line 1."""
    more = f" and {len(numbers) - NAMED} more" if len(numbers) > NAMED else ""
    return f"line{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers[:NAMED]))}{more}"


def _in_order(values: set[str]) -> tuple[str, ...]:
    """The values sorted, by value if all are whole numbers."""
    try:
        return tuple(sorted(values, key=lambda value: (int(value), value)))
    except ValueError:
        return tuple(sorted(values))
