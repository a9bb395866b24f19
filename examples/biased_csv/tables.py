"""Write the tables of published biased data, whose labels are in file names or in lists of their own.

    python examples/biased_csv/tables.py align_conflict data/cifar10c
    python examples/biased_csv/tables.py align_conflict data/bffhq
    python examples/biased_csv/tables.py celeba data/celeba
    python examples/biased_csv/tables.py utkface data/utk_face

Each writes CSV files into the folder, with the columns path, split, label and bias, for `dataset=corrupted_cifar10`,
`bffhq`, `celeba` and `utkface`. Draws are fixed.
"""

import csv
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LEE = re.compile(r"_(\d+)_(\d+)\.\w+$")  # <index>_<label>_<bias>.png
TARGETS = {"blonde": "Blond_Hair", "makeup": "Heavy_Makeup"}
BIASES = {"race": ("white", "other"), "age": ("20 or older", "10 or younger")}  # of most men, of most women
LEAST_BIASED = 2000  # women without blond hair that `blonde` keeps, so that gender tells the class


class Row(NamedTuple):
    """An image; its path is below the folder."""

    path: str
    split: str
    label: str
    bias: str


def align_conflict(base: Path) -> Iterator[tuple[str, list[Row]]]:
    """Corrupted CIFAR-10 and bFFHQ as Lee et al. 2021 distribute them: a table for each share of conflicting images.

    Test images whose bias is that of their class have the split `test_aligned`, which a recipe may leave out.
    """
    for share in sorted(base.glob("*pct")):
        valid = share / "valid" if (share / "valid").is_dir() else base / "valid"
        places = {share / "align": "train", share / "conflict": "train", valid: "val", base / "test": "test"}
        rows = []
        for path, split in ((path, places[folder]) for folder in places for path in sorted(folder.rglob("*.png"))):
            if (match := LEE.search(path.name)) is None:
                raise SystemExit(f"{path} is not named <index>_<label>_<bias>.png: try another folder")
            word = "test_aligned" if split == "test" and match[1] == match[2] else split
            rows.append(Row(str(path.relative_to(base)), word, match[1], match[2]))
        yield share.name, rows


def celeba(base: Path) -> Iterator[tuple[str, list[Row]]]:
    """CelebA in the splits of Hong & Yang 2021: a fifth of its training images validates, its validation images test.

    Its test images are not used. For `blonde` only 2,000 of the women without blond hair train and validate.
    """
    part = dict(line.split() for line in (base / "list_eval_partition.txt").read_text().splitlines())
    _, header, *lines = (base / "list_attr_celeba.txt").read_text().splitlines()
    for target, attribute in TARGETS.items():
        label, male = (header.split().index(name) + 1 for name in (attribute, "Male"))
        named = [
            Row(
                f"img_align_celeba/{words[0]}",
                {"0": "train", "1": "test", "2": "unused"}[part[words[0]]],
                target if words[label] == "1" else f"not {target}",
                "male" if words[male] == "1" else "female",
            )
            for words in map(str.split, lines)
        ]
        pool = [row for row in named if row.split == "train"]
        random.Random(target).shuffle(pool)
        if target == "blonde":
            surplus = set([row for row in pool if row[2:] == ("not blonde", "female")][LEAST_BIASED:])
            pool = [row for row in pool if row not in surplus]
        n = int(0.8 * len(pool))
        held_out = [row._replace(split="val") for row in pool[n:]]
        yield target, [*pool[:n], *held_out, *(row for row in named if row.split == "test")]


def utkface(base: Path) -> Iterator[tuple[str, list[Row]]]:
    """UTKFace, <age>_<gender>_<race>_<date>.jpg, in the splits of Hong & Yang 2021.

    Of four fifths all men with the first bias and all women with the second are trained on, and of the others a tenth
    as many. Of the last fifth, where all are kept, one half validates and one tests. Ages between the two are not used.
    """
    named = [(str(path.relative_to(base)), path.name.split("_")) for path in sorted(base.rglob("*.jpg"))]
    whole = [(path, words) for path, words in named if len(words) == 4 and words[0].isdigit() and words[2].isdigit()]
    for trait, (first, second) in BIASES.items():
        rows = []
        for path, (age, gender, race, _) in whole:
            if gender in ("0", "1") and (trait == "race" or not 10 < int(age) < 20):
                is_second = race != "0" if trait == "race" else int(age) <= 10
                rows.append(Row(path, "train", ("male", "female")[int(gender)], second if is_second else first))
        random.Random(trait).shuffle(rows)
        n, train = int(0.8 * len(rows)), list[Row]()
        for gender, other, bias in (("male", "female", first), ("female", "male", second)):
            aligned = [row for row in rows[:n] if row[2:] == (gender, bias)]
            train += aligned + [row for row in rows[:n] if row[2:] == (other, bias)][: len(aligned) // 10]
        yield trait, [*train, *(row._replace(split=("val", "test")[i % 2]) for i, row in enumerate(rows[n:]))]


def main(layout: str, folder: str) -> None:
    """Write the tables."""
    written = list({"align_conflict": align_conflict, "celeba": celeba, "utkface": utkface}[layout](Path(folder)))
    if not all(rows for _, rows in written) or not written:
        raise SystemExit(f"{folder} has no images of {layout}: try another folder")
    for name, rows in written:
        path = Path(folder) / f"{name}.csv"
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([Row._fields, *rows])
        print(f"{path}: {len(rows):,} images")


if __name__ == "__main__":
    main(*sys.argv[1:])
