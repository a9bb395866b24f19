"""A table of images in place of class folders: a CSV file with path, split, label and bias, as WILDS writes it."""

import csv
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from contrastive.dataset.folder.layout import BY_NAME, NOTHING, ImageFile, Part, halves
from contrastive.dataset.splits import drawn
from contrastive.errors import ConfigError
from contrastive.listing.found import Listing
from contrastive.listing.names import LeftOut, composed, image_paths, split_of
from contrastive.text import as_typed, counted, listed, printable

NUMBERS = {"0": "train", "1": "val", "2": "test"}  # as WILDS writes splits
# those of Waterbirds
COLUMNS = {"path": "img_filename", "split": "split", "label": "y", "bias": "place", "group": None}
OPTIONAL = ("split", "bias", "group")  # may be null
NAMED = 5  # lines, or values, that a sentence lists
DELIMITERS = ",;\t"
BEYOND = "\0"  # the column of cells beyond the header; that of '' is the index which pandas writes
OTHER_TABLE = "FILE.csv, or, for the table of a recipe, python train.py --help dataset=NAME"


class Row(NamedTuple):
    """What one line of a table says of one image."""

    path: str
    split: str | None  # None: of a table without splits
    label: str
    bias: str | None
    group: str | None


def read_table(
    base: Path, path: Path, columns: Mapping[str, str | None], splits: Mapping[str, str | None] = NOTHING
) -> Listing[Part]:
    """Read a table, with cells between commas, semicolons or tabs.

    Args:
        base: the folder that the paths of the images start from; what no path says alone is looked for below it, by its
            name, also without the suffix.
        path: of the table.
        columns: {path, split, label, bias, group: name of the column}; None for a bias or a group = there is none, for
            a split = a fixed fifth of each class is the test split, and no group is on both sides. Splits are words as
            `split_of` knows them, or 0, 1 and 2; without test rows those of val are the test split. Labels and biases
            are any words, numbered in their order (of numbers by value).
        splits: {a word of the column: train, val, test, or None to leave its rows out}.

    Raises:
        ConfigError: the table is missing, lacks a column, has an unknown split, a short line or an empty value, gives
            an image two splits, labels or biases, or names no training or no test images.
    """
    names = {**COLUMNS, **columns}
    for key, name in names.items():
        if key not in COLUMNS or (name is None and key not in OPTIONAL):
            known = ", ".join(COLUMNS)
            raise ConfigError(f"dataset.columns has {known} and a name for each: try 'dataset.columns={{label: y}}'")
    rows, unused = _rows(base, path, names, splits)
    files = _files(base, [row.path for row in rows])
    _check_once(path, rows, files)
    classes = _in_order({row.label for row in rows})
    biases = _in_order({row.bias for row in rows if row.bias is not None})
    left_out = {f"of the split {word}, which dataset.splits leaves out": paths for word, paths in unused.items()}
    parts: dict[str | None, list[ImageFile]] = {"train": [], "val": [], "test": [], None: []}
    label = {name: i for i, name in enumerate(classes)}
    bias = {None: -1} | {name: i for i, name in enumerate(biases)}
    for row, file in zip(rows, files, strict=True):
        if file is None:
            left_out.setdefault(f"named by {path.name} and not there", []).append(row.path)
            continue
        parts[row.split].append(ImageFile(file, label[row.label], bias[row.bias], row.group))
    places = {name: f"rows of {path.name}" for name in ("train", "val", "test") if parts[name]}
    if names["split"] is None:
        parts["train"], parts["test"] = halves(parts[None])
        how = drawn(len(parts["test"]), len(parts[None]), names["group"] or BY_NAME, has_labels=True)
        places = {"train": f"rows of {path.name}", "test": how}
    elif not parts["test"] and parts["val"]:
        parts["test"], parts["val"] = parts["val"], []
        places["test"] = f"{places.pop('val')}, those of val"
    for name in ("train", "test"):
        if not parts[name]:
            gone = next((files[0] for why, files in left_out.items() if why.endswith("not there")), None)
            looked = f" ({printable(base / gone)} is not there)" if gone else ""
            raise ConfigError(
                f"{path} names no {name} images that exist{looked}: try another dataset.root or dataset.columns.split"
            )
    taken = {name: Part(base, parts[name]) for name in ("train", "val", "test") if parts[name]}
    return Listing(taken, classes, biases, places, left_out, tuple(_torn(parts, names["group"])))


def _check_once(path: Path, rows: Sequence[Row], files: Sequence[str | None]) -> None:
    """Refuse an image of two splits, labels, biases or groups."""
    first = dict[str, Row]()
    for row, file in zip(rows, files, strict=True):
        if file is not None and first.setdefault(file, row)[1:] != row[1:]:
            raise ConfigError(
                f"{path} has {printable(file)} in two lines, of two splits, labels, biases or groups: "
                "try one line for each image"
            )


def _torn(parts: Mapping[str | None, Sequence[ImageFile]], column: str | None) -> list[str]:
    """A sentence for the groups of each evaluated split that are trained on, too."""
    groups = {name: {file.group for file in files if file.group is not None} for name, files in parts.items()}
    both = {name: sorted(groups["train"] & groups[name]) for name in ("val", "test")}
    return [
        f"{counted(len(own), 'group')} ({column}) of {name} are in train, too: {', '.join(own[:NAMED])}"
        for name, own in both.items()
        if own
    ]


def named_images(table: Path) -> list[tuple[Path, str]]:
    """The file of each line of a table, also one that is not there, and what its column `label` or y says, '' where
    there is none. Paths start from the table's folder, in the first column that has one of a file.

    Raises:
        ConfigError: the table cannot be read, has no column of images, a line that is too long, or one without a path.
    """
    base = table.parent
    header, rows = read_cells(table)
    label = next((name for name in header if name.lower() in ("label", "y")), "")
    for image in header:
        files = _files(base, [row[image] or "" for _, row in rows])
        if any(files):
            _check_cells(table, {"path": image}, rows)
            labels = [composed(row.get(label) or "") for _, row in rows]
            paths = [base / (file or row[image]) for (_, row), file in zip(rows, files, strict=True)]
            return [*zip(paths, labels, strict=True)]
    raise ConfigError(f"{table} has no column of image files: try a folder of images, or another table")


def split_of_cell(word: str) -> str | None:
    """`train`, `val` or `test` of a word in a column of splits; None for another word."""
    return NUMBERS.get(word.strip()) or split_of(word)


def _files(base: Path, paths: Sequence[str]) -> list[str | None]:
    """The file below the folder that each path of a table means, see `read_table`; None = it is not there."""
    is_there = [(base / path).is_file() for path in paths]
    called = {} if all(is_there) else _by_name(base)
    known = zip(paths, is_there, strict=True)
    return [os.path.normpath(path) if exact else called.get(composed(path)) for path, exact in known]


def _by_name(base: Path) -> dict[str, str]:
    """{what a table may call an image: its path below the folder}: the path or the name alone, with the suffix or
    without, if one image alone is called so."""
    found = defaultdict[str, list[str]](list)
    for path in (os.path.relpath(path, base) for path in image_paths(base, LeftOut(list))):
        ways = [composed(path), os.path.basename(composed(path))]
        for way in {*ways, *(os.path.splitext(way)[0] for way in ways)}:
            found[way].append(path)
    return {way: paths[0] for way, paths in found.items() if len(paths) == 1}


def read_cells(path: Path) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """The header of a table, and each line with its number; cells beyond the header are those of BEYOND.

    Raises:
        ConfigError: it cannot be read, or is empty.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            file.seek(0)
            reader = csv.DictReader(file, restkey=BEYOND, delimiter=max(DELIMITERS, key=first.count))
            header = list(reader.fieldnames or [])
            rows = [(reader.line_num, row) for row in reader]
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} is not written in UTF-8 ({error}): try iconv -f latin1 -t utf-8, or to save it as CSV UTF-8"
        ) from error
    except (OSError, csv.Error) as error:
        there = [file for file in sorted(path.parent.glob("*.csv")) if file != path]
        known = there[0].name if there else OTHER_TABLE
        raise ConfigError(f"{path} cannot be read ({error}): try dataset.table={known}") from error
    if not rows:
        raise ConfigError(f"{path} has no line below its header: try a table with a line for each image")
    return header, rows


def _rows(
    base: Path, path: Path, names: Mapping[str, str | None], splits: Mapping[str, str | None]
) -> tuple[list[Row], dict[str, list[str]]]:
    """Every line of the table, none of which lacks a value; and {split: paths of rows} of those that are left out."""
    header, rows = read_cells(path)
    if missing := [name for name in names.values() if name is not None and name not in header]:
        raise ConfigError(
            f"{path} has no column {' and no '.join(missing)}, its columns are {', '.join(header)}: "
            f"try contrastive look {as_typed(path)}, which guesses what to type"
        )
    image, split, label, bias, group = (names[key] for key in COLUMNS)
    assert image is not None and label is not None  # the others are optional
    _check_cells(path, {"split": split}, rows)
    used = [(n, row) for n, row in rows if split is None or splits.get(row[split].strip(), "") is not None]
    _check_cells(path, names, used)  # those that are left out may lack a label
    kept, unused = [], dict[str, list[str]]()
    for line, row in rows:
        word = None if split is None else row[split].strip()
        if word is not None and word in splits and splits[word] is None:
            unused.setdefault(word, []).append(row[image])
            continue
        meant = None if word is None else splits.get(word) or split_of_cell(word)
        if word is not None and meant is None:
            odd = dict.fromkeys(w for _, other in rows if split_of_cell(w := other[split or ""].strip()) is None)
            left_out = ", ".join(f"{each}: {splits.get(each) or 'null'}" for each in odd)
            raise ConfigError(
                f"{path} has the split {word!r} in line {line}: try 0, 1, 2 or train, val, test, or "
                f"'dataset.splits={{{left_out}}}' to leave such rows out"
            )
        words = composed(row[label]), bias and composed(row[bias]), group and composed(row[group])
        kept.append(Row(row[image], meant, *words))
    return kept, unused


def _check_cells(path: Path, names: Mapping[str, str | None], rows: Sequence[tuple[int, dict[str, str]]]) -> None:
    """Refuse lines that are too long, and values that are missing."""
    if long := [line for line, row in rows if any(row.get(BEYOND, ()))]:
        raise ConfigError(f"{path} has too many columns in {_lines(long)}: try quotes around a value with a comma")
    for key, name in names.items():
        if name is None:
            continue
        if empty := [line for line, row in rows if (row[name] or "").strip().lower() in ("", "nan")]:
            raise ConfigError(f"{path} has no {key} ({name}) in {_lines(empty)}: try it without these lines")


def _lines(numbers: Sequence[int]) -> str:
    """`lines 3, 5, 9, 12, 13 and 7 more`; the header is line 1."""
    return f"line{'s' if len(numbers) > 1 else ''} {listed(numbers, NAMED)}"


def _in_order(values: set[str]) -> tuple[str, ...]:
    """The values sorted, by value if all are whole numbers."""
    try:
        return tuple(sorted(values, key=lambda value: (int(value), value)))
    except ValueError:
        return tuple(sorted(values))
