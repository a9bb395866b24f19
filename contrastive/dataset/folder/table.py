"""A table of images in place of class folders: a CSV file with path, split, label and bias, as WILDS writes it."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from contrastive.dataset.folder.layout import ImageFile, Part, warn_left_out
from contrastive.errors import ConfigError

SPLITS = {"0": "train", "1": "val", "2": "test", "train": "train", "val": "val", "valid": "val", "test": "test"}
COLUMNS = {"path": "img_filename", "split": "split", "label": "y", "bias": "place"}  # those of Waterbirds


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
        base: the folder that the paths of the images start from. path: of the table.
        columns: {path, split, label, bias: name of the column}; None for a bias = there is none. Splits are train, val
            and test or 0, 1 and 2; labels and biases are any words, numbered in their order (of numbers by value).

    Raises:
        ConfigError: the table is missing, lacks a column, has an unknown split or a short line, or names no training or
            no test images.
    """
    names = {**COLUMNS, **columns}
    for key, name in names.items():
        if key not in COLUMNS or (name is None and key != "bias"):
            known = ", ".join(COLUMNS)
            raise ConfigError(f"dataset.columns has {known} and a name for each: try 'dataset.columns={{label: y}}'")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}): try dataset.table=metadata.csv") from error
    header = [] if not rows else list(rows[0])
    for key, name in names.items():
        if name is not None and name not in header:
            raise ConfigError(
                f"{path} has no column {name}, its columns are {', '.join(header) or 'none'}: "
                f"try 'dataset.columns={{{key}: {header[0] if header else name}}}'"
            )
    read = [name for name in names.values() if name is not None]
    for i, row in enumerate(rows, 2):
        if any(row[name] is None for name in read):
            raise ConfigError(f"{path} has too few columns in line {i}: try a text editor")
    label, bias = str(names["label"]), names["bias"]
    classes = _in_order({row[label] for row in rows})
    biases = () if bias is None else _in_order({row[bias] for row in rows})
    parts: dict[str, list[ImageFile]] = {"train": [], "val": [], "test": []}
    for i, row in enumerate(rows, 2):
        word = row[str(names["split"])]
        if word not in SPLITS:
            raise ConfigError(f"{path} has the split {word!r} in line {i}: try 0, 1, 2 or train, val, test")
        file_path = row[str(names["path"])]
        if not (base / file_path).is_file():
            warn_left_out(base / file_path, f"{path.name} names it and it is not there")
            continue
        number = -1 if bias is None else biases.index(row[bias])
        parts[SPLITS[word]].append(ImageFile(file_path, classes.index(row[label]), number))
    for name in ("train", "test"):
        if not parts[name]:
            raise ConfigError(
                f"{path} names no {name} images that exist: try another dataset.root or dataset.columns.split"
            )
    return TableOfImages(classes, biases, *(Part(base, files) for files in parts.values()))


def _in_order(values: set[str]) -> tuple[str, ...]:
    """The values sorted, by value if all are whole numbers."""
    try:
        return tuple(sorted(values, key=int))
    except ValueError:
        return tuple(sorted(values))
