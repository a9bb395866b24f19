"""Where the files of a dataset lie, and what a listing tells of them: compared before a finished run is shown, since
reading them takes long. Imports no torch."""

import glob
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypedDict

from contrastive.errors import ConfigError, check_at_least
from contrastive.files import walked
from contrastive.listing.names import is_of_a_tool
from contrastive.text import as_typed

# the settings that name files, of any dataset; in one of your own a setting that is the path of a file does, too
KEYS = ("root", "test", "val", "unlabeled", "table", "images", "labels", "test_images", "test_labels")


USUAL_SIZE = 32  # pixels of a side, where nothing is known of the images


class Place(TypedDict):
    """What a setting names.

    path: where it is, without links; as typed if it is a URL.
    listing: sha256 over the name, size and modification time of every file; of a URL ''. None = there is none.
    """

    path: str
    listing: str | None


def places(dataset: Mapping[str, Any]) -> dict[str, Place]:
    """{setting: the files that it names}; {} of a dataset that has no files of the user.

    Args:
        dataset: its node. Of the package's own datasets those without a `cache` make their images, or download files
            and compare them with published checksums.
    """
    if str(dataset["_target_"]).startswith("contrastive.") and "cache" not in dataset:
        return {}
    texts = {key: value for key, value in dataset.items() if isinstance(value, str) and key != "cache"}
    typed = {key: value for key, value in texts.items() if key in KEYS or _is_file(value)}
    if "table" in typed:
        typed["table"] = str(Path(typed.get("root", "")) / typed["table"])
    return {key: _place(value, cache=str(dataset.get("cache"))) for key, value in typed.items()}


def check_base(base: Path) -> None:
    """Raise ConfigError if the folder of all images is not there."""
    if not base.is_dir():
        raise ConfigError(
            f"{base} is not a folder: put the images into {base}/<class>/, or into {base} if they have no labels, "
            "or run without them: python train.py"
        )


def check_root(dataset: str, root: str | None, size: int | None, frame: int | None = None) -> tuple[str, int]:
    """The folder, or a pattern of shards, and the size of its images; raises ConfigError where one is missing, the
    images have no pixels, or the frame is smaller than they are."""
    if root is not None and dataset == "image_folder":
        check_base(Path(root))
    if root is None or size is None:
        place, side = "PATH" if root is None else as_typed(Path(root)), size or USUAL_SIZE
        raise ConfigError(
            f"dataset={dataset} needs its images and their side in pixels: try dataset.root={place} "
            f"dataset.size={side}, or contrastive look {place} for the whole command"
        )
    check_at_least("dataset.size", size, 1, example=32)
    if frame is not None:
        check_at_least("dataset.frame", frame, size, example=max(512, size))
    return root, size


def _is_file(value: str) -> bool:
    """Whether a text is the path of a file, or of a folder: a word alone, such as train, is none."""
    path = os.path.expanduser(value)
    return os.path.isfile(path) or (os.sep in value and os.path.isdir(path))


def _place(value: str, *, cache: str) -> Place:
    path, listing, is_empty = Path(value).expanduser(), hashlib.sha256(), True
    for name, size, time in _files(path, skip=os.path.realpath(cache)):
        listing.update(os.fsencode(f"{name}\0{size}\0{time}\n"))
        is_empty = False
    return {"path": str(path.resolve()), "listing": None if is_empty else listing.hexdigest()}


def _files(path: Path, *, skip: str) -> Iterator[tuple[str, int, int]]:
    """Name, size and modification time of a file, of every file below a folder, or of those of a pattern, in order.

    Args:
        skip: a folder that is left out.
    """
    if path.is_dir():
        yield from _below(str(path), skip)
        return
    for file in [str(path)] if path.is_file() else sorted(glob.glob(re.sub(r"\{\d+\.\.\d+\}", "*", str(path)))):
        info = os.stat(file)
        yield os.path.basename(file), info.st_size, info.st_mtime_ns


def _below(folder: str, skip: str) -> Iterator[tuple[str, int, int]]:
    for top, folders, names in walked(folder, skip=skip):
        folders[:] = sorted(name for name in folders if not is_of_a_tool(name))
        for name in sorted(name for name in names if not is_of_a_tool(name)):
            path = os.path.join(top, name)
            with suppress(OSError):  # a link that leads nowhere
                info = os.stat(path)
                yield path.removeprefix(folder), info.st_size, info.st_mtime_ns
