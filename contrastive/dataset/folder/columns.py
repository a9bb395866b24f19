"""Which columns of a table are meant: where one is missing, all of them are guessed by name and by content."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

SPLITS = {"0": "train", "1": "val", "2": "test", "train": "train", "val": "val", "valid": "val", "test": "test"}
COLUMNS = {"path": "img_filename", "split": "split", "label": "y", "bias": "place"}  # those of Waterbirds
HINTS = {
    "path": ("path", "file", "image", "img"),
    "split": ("split", "fold", "subset", "partition", "phase", "set"),
    "label": ("label", "y", "class", "target", "category", "species"),
    "bias": ("bias", "place", "background", "group", "attribute", "color", "domain", "gender", "sex"),
}
LOOKED_AT = 50  # rows whose files are looked for


def guess_columns(
    typed: Mapping[str, str | None], rows: Sequence[Mapping[str, str | None]], header: Sequence[str], base: Path
) -> str:
    """`'dataset.columns={path: file, split: fold, label: label, bias: null}'`, to be typed.

    A column that was typed, or that is called as in Waterbirds, stays where the table has it. Of the others the path is
    a column with files of the folder, the split one with nothing but names of splits, label and bias repeat their
    values; among several of them the name decides, then the order. What no column fits is `...`, a bias null.

    Args:
        typed: {path, split, label, bias: column}, the defaults included.
        base: the folder that paths start from.
    """
    chosen = {key: name for key, name in typed.items() if name is None or name in header}
    for key in (key for key in COLUMNS if key not in chosen):
        free = [name for name in header if name not in chosen.values()]
        fitting = [name for name in free if _fits(key, [row[name] or "" for row in rows], base)]
        named = [name for name in free if _is_hinted(key, name)]
        best = [*(name for name in fitting if name in named), *fitting, *named]
        chosen[key] = best[0] if best else None if key == "bias" else "..."
    pairs = (f"{key}: {'null' if chosen[key] is None else _quoted(str(chosen[key]))}" for key in COLUMNS)
    return f"'dataset.columns={{{', '.join(pairs)}}}'"


def _fits(key: str, values: Sequence[str], base: Path) -> bool:
    if key == "path":
        return any(value and (base / value).is_file() for value in values[:LOOKED_AT])
    if key == "split":
        return {"train", "test"} <= {SPLITS.get(value, "") for value in values} and set(values) <= SPLITS.keys()
    return 1 < len(set(values)) <= len(values) / 2


def _is_hinted(key: str, name: str) -> bool:
    """Whether a column is called like what is wanted: a short word is the whole name, a longer one a part of it."""
    return any(hint == name.lower() or (len(hint) > 3 and hint in name.lower()) for hint in HINTS[key])


def _quoted(name: str) -> str:
    """A name as it is typed inside of {}."""
    return name if re.fullmatch(r"[^\W\d][\w .-]*|\.\.\.", name) else '"' + name.replace('"', '\\"') + '"'
