"""What a data set holds, without training: splits, classes, what is left out, what the images are.

    python -m contrastive look PATH
    python -m contrastive look PATH dataset.channels=1
    python -m contrastive look dataset=image_folder dataset.root=PATH dataset.table=labels.csv
    python -m contrastive look PATH augmentation=simclr -o look.html

PATH is a folder of images or of tar shards, a table of images (.csv, .tsv) or arrays (.npy, .npz); settings of its
dataset and of the augmentation may follow. Of a folder or a table up to 256 images are decoded. The last line is a
command that trains on it.

    --config-dir mine     a folder with YAMLs and modules of your own, as in train.py
    -o look.html          a page to look at, too: images of each class, the views that training makes of them, the mean
                          image. All images are read for it, as a run reads them: the next run finds them decoded
"""

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from glob import escape
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from hydra import compose
from hydra.core.override_parser.overrides_parser import OverridesParser

from contrastive.config.arguments import Parser, answering, html_file
from contrastive.config.compose import LARGE, composing, importable, search_path
from contrastive.config.identity import key_of
from contrastive.config.settings import Settings, checked_settings
from contrastive.config.words import quote_paths
from contrastive.errors import ConfigError
from contrastive.files import content_of, write_text
from contrastive.listing.names import has_an_image, split_of, subfolders
from contrastive.listing.places import USUAL_SIZE
from contrastive.text import as_typed, show

if TYPE_CHECKING:
    from contrastive.dataset.folder.layout import Part
    from contrastive.dataset.shard.index import Index
    from contrastive.listing.found import Listing

LOOKED_AT = 256  # images, evenly spaced
MOST_READ = 10**9  # bytes of files that are compared
SIDES = (224, 128, 96, 64, 32)  # of images that recipes are for
TABLES, ARRAYS = (".csv", ".tsv"), (".npy", ".npz")
# columns of a table, by name
HINTS = {
    "path": ("path", "file", "image", "img", "id"),
    "split": ("split", "fold", "subset", "partition", "phase", "set"),
    "label": ("label", "y", "class", "target", "category", "species", "breed", "grade", "diagnosis", "dx"),
    "bias": ("bias", "place", "background", "group", "attribute", "color", "domain", "gender", "sex"),
    "group": ("patient", "patient_id", "patientid", "subject", "subject_id", "subjectid"),
}
ROWS_LOOKED_AT = 50  # rows whose files are looked for
LOOKED_FOR = 3  # rows whose files are looked for without a suffix


@answering
def main(words: list[str]) -> int:
    """Print the report and the command; returns the exit code."""
    parser = Parser("look", __doc__)
    parser.add_argument("words", metavar="WORD", nargs="+", help="PATH, and KEY=VALUE as in train.py")
    parser.add_argument("-o", dest="page", metavar="FILE.html", type=html_file, help="the page to write")
    parser.add_config_dir()
    options = parser.parse_intermixed_args(words)
    typed = options.words
    paths = [word for word in typed if "=" not in word or Path(word).exists()]
    if len(paths) > 1:
        raise ConfigError(f"look takes one path, got {' and '.join(paths)}: try it with {paths[0]} alone")
    words = [word for word in typed if word not in paths]
    guessed = guess(paths[0]) if paths else ["dataset=image_folder"]
    settings = [*(word for word in guessed if key_of(word) not in map(key_of, words)), *words]
    values = parsed([word for word in settings if key_of(word).partition(".")[0] == "dataset"])
    if values.pop("dataset", "image_folder") == "image_folder":
        report, further = images_of(values)
    else:
        report, further = data_of(quote_paths(settings), options.folders)
    settings += [word for word in further if key_of(word) not in map(key_of, settings)]
    own = [word for folder in options.folders for word in ("--config-dir", str(folder))]
    command = shlex.join(["python", "train.py", *own, *settings])
    with composed(quote_paths(settings), options.folders) as checked:  # a command that is shown can be typed
        hint = "" if options.page else "\nto see the images and their views: the same with -o look.html"
        show(f"{report}{hint}\n")
        if options.page:  # before the command, which the page may refuse
            from contrastive.gallery.look import look_page  # late: importing torch takes seconds

            write_text(options.page, look_page(checked, command))
            show(f"page to look at: {as_typed(options.page)}\n")
    show(command)
    return 0


@contextmanager
def composed(words: list[str], folders: Sequence[Path]) -> Iterator[Settings]:
    """The settings that `python train.py` has for these words, while what they name can be imported."""
    with composing(), importable([Path.cwd(), *folders]):
        yield checked_settings(compose("train", [*words, *search_path(folders)]), words)


def parsed(words: list[str]) -> dict[str, Any]:
    """{dataset: its name, root: value, ...} of dataset=NAME, dataset.root=PATH and so on."""
    overrides = OverridesParser.create().parse_overrides(quote_paths(words))
    return {override.key_or_group.removeprefix("dataset."): override.value() for override in overrides}


def guess(place: str) -> list[str]:
    """The dataset that reads a place, and where it reads, as typed.

    Raises:
        ConfigError: there is nothing, or nothing of images.
    """
    path = Path(place).expanduser()
    has_tars = any(path.glob("*.tar")) and not any(has_an_image(path / name) for name in subfolders(path))
    if path.suffix == ".tar" or has_tars or any((path / "train").glob("*.tar")):  # as `contrastive pack` writes them
        return ["dataset=shards", f"dataset.root={place}"]
    if path.is_dir():
        return ["dataset=image_folder", f"dataset.root={path}"]
    if path.suffix.lower() in ARRAYS and path.is_file():
        return ["dataset=arrays", f"dataset.images={path}"]
    if path.suffix.lower() in TABLES and path.is_file():
        root = next((folder for folder in path.parents[:2] if has_an_image(folder)), path.parent)
        return ["dataset=image_folder", f"dataset.root={root}", f"dataset.table={path.relative_to(root)}"]
    raise ConfigError(f"{place} is no folder, table or array that is there: try a folder of images")


def images_of(settings: dict[str, Any]) -> tuple[str, list[str]]:
    """The report on a folder or a table, and what else is typed to train on it."""
    from contrastive.dataset.folder.table import read_cells
    from contrastive.dataset.image_folder import listed_images

    if "root" not in settings:
        raise ConfigError("look needs a path: try python -m contrastive look PATH")
    base, further = Path(settings["root"]), list[str]()
    keys = ("unlabeled", "table", "columns", "splits")
    chosen = {key: settings[key] for key in keys if settings.get(key) is not None}
    if "table" in chosen and "columns" not in chosen:
        header, rows = read_cells(base / chosen["table"])
        chosen["columns"] = guess_columns([row for _, row in rows], header, base)
        further.append(typed_columns(chosen["columns"]).strip("'"))
    listed = listed_images(base, **chosen)
    report, words = _sample(base, listed, settings.get("channels"))
    further += words if "size" not in settings else []
    tables = [path for suffix in TABLES for path in sorted(base.rglob(f"*{suffix}"))] if not listed.classes else []
    hint = f"\nno labels; a table may tell them: try python -m contrastive look {tables[0]}" if tables else ""
    fewer = [f"dataset.{key}" for key in ("per_class", "imbalance") if settings.get(key) is not None]
    return report + hint + f"\nbefore {' and '.join(fewer)}" * bool(fewer), further


def _sample(base: Path, listed: "Listing[Part]", channels: int | None) -> tuple[str, list[str]]:
    """The report after a look at some of the images, and the words for their size and kind."""
    from contrastive.dataset.folder.decode import common_kind
    from contrastive.dataset.folder.layout import Part
    from contrastive.dataset.folder.pixels import examined, told

    n = sum(len(part.files) for part in listed.splits.values())
    step = -(-n // LOOKED_AT)
    some = {key: Part(part.folder, part.files[::step]) for key, part in listed.splits.items()}
    paths = [path for part in some.values() for path in part.paths]
    kind = common_kind(paths, channels)
    facts = {key: examined(part, USUAL_SIZE, kind) for key, part in some.items()}
    with ThreadPoolExecutor() as pool:
        opened = [each for each in pool.map(_side_and_mode, paths) if each]
    sides = [side for side, _ in opened]
    is_gray = kind.channels == 3 and {mode for _, mode in opened} <= {"1", "L"} and bool(opened)
    of = "" if step == 1 else f", by a look at {len(paths)} of {n:,}"
    sizes = f", the shorter side of {' to '.join(map(str, sorted({min(sides), max(sides)})))} pixels" if sides else ""
    gray = ", gray made RGB: dataset.channels=1 keeps one channel" if is_gray else ""
    seen = told(listed._replace(splits=some), facts, [f"each image: {kind}{sizes}{of}{gray}"])
    parts = seen.splits if step == 1 else listed.splits
    report = seen._replace(splits=parts, notes=(*seen.notes, *_copies(parts))).found()
    return str(report), [usual_size(sides), *(["augmentation=intensity"] if kind.channels != 3 else [])]


def usual_size(sides: Sequence[int]) -> str:
    """The word for the size of images whose shorter sides these are: the largest of `SIDES` that half of them have."""
    middle = int(median(sides)) if sides else USUAL_SIZE
    return f"dataset.size={next((side for side in SIDES if side <= middle), middle)}"


def _copies(parts: dict[str, "Part"]) -> list[str]:
    """The note on images that are there twice, for which those files are read that are as long as another one."""
    import numpy as np

    from contrastive.listing.found import copy_notes

    sizes = {path: path.stat().st_size for part in parts.values() for path in part.paths}
    alike = Counter(sizes.values())
    if sum(size for size in sizes.values() if alike[size] > 1) > MOST_READ:
        return []
    content = {path: content_of(path.read_bytes()) if alike[size] > 1 else size << 32 for path, size in sizes.items()}
    codes = {key: np.array([content[path] for path in part.paths], np.uint64) for key, part in parts.items()}
    return copy_notes(codes, parts, {key: part.names for key, part in parts.items()})


def size_in_shards(indices: "Sequence[Index]") -> str:
    """`usual_size` of some images of the first shard."""
    import torch

    from contrastive.dataset.shard.stored import StoredImages

    stored = StoredImages(indices[:1], size=USUAL_SIZE)
    images = stored.read(torch.arange(0, len(stored), max(1, len(stored) // LOOKED_AT)))
    return usual_size([opened[0] for image in images if (opened := _side_and_mode(BytesIO(image)))])


def _side_and_mode(path: Path | BytesIO) -> tuple[int, str] | None:
    """The shorter side of an image in pixels, and its mode; None where Pillow does not tell."""
    from PIL import Image

    from contrastive.dataset.folder.decode import FORMATS

    try:
        with Image.open(path, formats=FORMATS) as opened:
            return min(opened.size), opened.mode
    except Exception:  # an array, or a broken file, which the report names
        return None


def data_of(words: list[str], folders: Sequence[Path]) -> tuple[str, list[str]]:
    """The report on another dataset, which is read for it, and what else is typed to train on it."""
    from contrastive.dataset.shard.stored import StoredImages
    from contrastive.listing.found import Listing

    sized = "dataset=shards" in words and "dataset.size" not in map(key_of, words)
    with composed([*words, *([f"dataset.size={USUAL_SIZE}"] if sized else [])], folders) as settings:
        from contrastive.experiment.components import build_data, image_size  # late: importing torch takes seconds

        data = build_data(settings.dataset)
    train, further = data.pretrain, list[str]()
    height, width = train.image.shape[-2:]
    if sized and isinstance(train.image, StoredImages):
        further = [size_in_shards(train.image.indices)]
    elif settings.encoder.get("stem") == "small" and image_size(settings.dataset) is None and height >= LARGE:
        further = ["encoder.stem=large"]
    what = f"each image: {data.n_channels} x {8 * train.image.dtype.itemsize} bits, {height} x {width} pixels"
    parts = {"train": train, "test": data.test}
    listing = Listing(parts, data.classes, data.biases, notes=(what,))
    return str(data.found or listing.found()), [*further, *(["augmentation=intensity"] if data.n_channels != 3 else [])]


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
    from contrastive.dataset.folder.table import COLUMNS, OPTIONAL  # late: it imports torch

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
    from contrastive.dataset.folder.table import NUMBERS

    if key == "path":
        return any(value and (base / value).is_file() for value in values[:ROWS_LOOKED_AT])
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
