"""Which columns of a table are meant, guessed by name and by content."""

import re
from collections.abc import Mapping, Sequence
from glob import escape
from pathlib import Path

from contrastive.dataset.folder.table import COLUMNS, NUMBERS, OPTIONAL
from contrastive.listing.names import split_of

HINTS = {
    "path": ("path", "file", "image", "img", "id"),
    "split": ("split", "fold", "subset", "partition", "phase", "set"),
    "label": ("label", "y", "class", "target", "category", "species", "breed", "grade", "diagnosis", "dx"),
    "bias": ("bias", "place", "background", "group", "attribute", "color", "domain", "gender", "sex"),
    "group": ("patient", "patient_id", "patientid", "subject", "subject_id", "subjectid"),
}
LOOKED_AT = 50  # rows whose files are looked for
LOOKED_FOR = 3  # rows whose files are looked for without a suffix


def guess_columns(rows: Sequence[Mapping[str, str | None]], header: Sequence[str], base: Path) -> dict[str, str | None]:
    """{path, split, label, bias, group: column}.

    A column that is called as in Waterbirds stays where the table has it. Of the others the path is
    a column with files of the folder, label and bias repeat their values; the split is a column of words for splits, or
    of 0, 1 and 2 where it is called like one, since grades are such numbers, too. Among several of them the name
    decides, then the order. A group is a column that is called as a patient is: taken for a bias, patients would be
    on both sides of a drawn split. What no column fits is `...`, a bias, a group and a split null.

    Args:
        base: the folder that paths start from.
    """
    chosen: dict[str, str | None] = {key: name for key, name in COLUMNS.items() if name in header}
    for key in (key for key in ("path", "split", "group", "label", "bias") if key not in chosen):
        free = [name for name in header if name not in chosen.values()]
        fitting = [name for name in free if _fits(key, name, [row[name] or "" for row in rows], base)]
        if key == "path" and not fitting:
            fitting = [name for name in free if _are_stems([row[name] or "" for row in rows], base)]
        named = [name for name in free if _is_hinted(key, name)]
        best = [*(name for name in fitting if name in named), *fitting, *(named if key != "split" else ())]
        chosen[key] = best[0] if best else None if key in OPTIONAL else "..."
    return {key: chosen[key] for key in COLUMNS}


def typed_columns(columns: Mapping[str, str | None]) -> str:
    """`'dataset.columns={path: file, split: fold, label: label, bias: null}'`, to be typed."""
    pairs = (
        f"{key}: {'null' if name is None else _quoted(name)}"
        for key, name in columns.items()
        if (key, name) != ("group", None)
    )
    return f"'dataset.columns={{{', '.join(pairs)}}}'"


def _fits(key: str, name: str, values: Sequence[str], base: Path) -> bool:
    if key == "path":
        return any(value and (base / value).is_file() for value in values[:LOOKED_AT])
    if key == "split":
        words = {value.strip() for value in values}
        are_numbers = words <= NUMBERS.keys() and _is_hinted(key, name)
        meant = [NUMBERS[word] if are_numbers else split_of(word) for word in words]
        is_divided = "train" in meant and ("test" in meant or "val" in meant)
        return is_divided and 2 * meant.count(None) <= len(meant)
    return key != "group" and 1 < len(set(values)) <= len(values) / 2


def _are_stems(values: Sequence[str], base: Path) -> bool:
    """Whether files of the folder, or of a folder in it, are called so but for the suffix."""
    names = [escape(value) for value in values[:LOOKED_FOR] if value and "/" not in value]
    return any(any(base.glob(f"{place}{name}.*")) for name in names for place in ("", "*/"))


def _is_hinted(key: str, name: str) -> bool:
    """Whether a column is called like what is wanted: a short word is the whole name, a longer one a part of it, but
    patient_age is no patient."""
    found = name.lower()
    return found in HINTS[key] or (key != "group" and any(len(hint) > 3 and hint in found for hint in HINTS[key]))


def _quoted(name: str) -> str:
    """A name as it is typed inside of {}."""
    return name if re.fullmatch(r"[^\W\d][\w .-]*|\.\.\.", name, re.ASCII) else '"' + name.replace('"', '\\"') + '"'
