"""The folders that an image folder may have: which files are training images, which are test images, which classes."""

import hashlib
from pathlib import Path
from typing import NamedTuple

from contrastive.dataset.folder.cache import SUFFIXES, ImageFile, list_images, walk_images
from contrastive.errors import ConfigError

TEST_FOLDERS = ("test", "val")  # the first that exists holds the test images
TEST_FRACTION = 0.1  # of images without labels and without a test folder
LEAST_TEST = 2  # images; fewer have no pairs


class Part(NamedTuple):
    """One split: image files whose paths lie below `folder`, or are absolute."""

    folder: Path
    files: list[ImageFile]


class Layout(NamedTuple):
    """Training and test images; no classes if the images have no labels."""

    classes: tuple[str, ...]
    train: Part
    test: Part


def find_images(base: Path, unlabeled: Path | None) -> Layout:
    """List the images below `base`.

    With two or more folders in base/train each is a class. Otherwise no image has a label.

    Args:
        unlabeled: a folder of further training images without labels.

    Raises:
        ConfigError: a folder is missing or holds no images, or test/ has a class that train/ lacks.
    """
    if not base.is_dir():
        raise ConfigError(
            f"{base} is not a folder: put the images into {base}/train/<class>/ and {base}/test/<class>/, "
            f"or into {base} if they have no labels, or run without them: python train.py"
        )
    classes = _subfolders(base / "train")
    layout = _labeled(base, classes) if len(classes) > 1 else _unlabeled(base)
    if unlabeled is None:
        return layout
    further = _images(unlabeled.resolve())
    absolute = [file._replace(path=str(unlabeled.resolve() / file.path)) for file in further]
    return layout._replace(train=layout.train._replace(files=[*layout.train.files, *absolute]))


def _labeled(base: Path, classes: tuple[str, ...]) -> Layout:
    """base/train/<class>/ and base/test/<class>/, or base/val/<class>/."""
    name = _test_folder(base)
    if name is None:
        raise ConfigError(
            f"{base} has no test images: put them into {base}/test/<class>/ or {base}/val/<class>/, "
            f"or try mv {base}/train {base}/all to train without labels"
        )
    unknown = [item for item in _subfolders(base / name) if item not in classes]
    if unknown:
        raise ConfigError(
            f"{name}/ has a class that train/ lacks ({', '.join(unknown[:3])}): "
            f"try mkdir {base}/train/{unknown[0]} and put images of it there"
        )
    parts = [Part(base / part, list_images(base / part, classes)) for part in ("train", name)]
    for folder, files in parts:
        if not files:
            raise ConfigError(
                f"{folder} holds no images: put some into {folder}/<class>/ (known are {', '.join(sorted(SUFFIXES))})"
            )
    return Layout(classes, *parts)


def _unlabeled(base: Path) -> Layout:
    """base/train/ with at most one folder in it, or images in `base` itself."""
    name = _test_folder(base)
    folder = base / "train" if (base / "train").is_dir() else base
    if folder == base and not any(path.suffix.lower() in SUFFIXES for path in base.iterdir()) and _subfolders(base):
        raise ConfigError(
            f"{base / 'train'} is not a folder: put the images into {base}/train/<class>/ and {base}/test/<class>/, "
            f"or into {base}/train/all/ if they have no labels"
        )
    files = _images(folder, skip=TEST_FOLDERS if folder == base else ())
    if name is not None:
        return Layout((), Part(folder, files), Part(base / name, _images(base / name)))
    chosen = sorted(files, key=lambda file: hashlib.sha256(file.path.encode(errors="surrogateescape")).digest())
    held_out = set(chosen[: max(LEAST_TEST, round(TEST_FRACTION * len(files)))])
    train = [file for file in files if file not in held_out]
    if len(train) < 2:
        raise ConfigError(f"{folder} holds {len(files)} images, too few to train on: put more there")
    return Layout((), Part(folder, train), Part(folder, [file for file in files if file in held_out]))


def _images(folder: Path, skip: tuple[str, ...] = ()) -> list[ImageFile]:
    """Every image below a folder, without labels; raise ConfigError if there is none."""
    files = walk_images(folder, skip=skip) if folder.is_dir() else []
    if not files:
        raise ConfigError(
            f"{folder} has no class folders and holds no images: put them into {folder}/<class>/, or into {folder} if "
            f"they have no labels (known are {', '.join(sorted(SUFFIXES))})"
        )
    return files


def _test_folder(base: Path) -> str | None:
    return next((name for name in TEST_FOLDERS if (base / name).is_dir()), None)


def _subfolders(folder: Path) -> tuple[str, ...]:
    """Names of the folders in a folder, sorted; none if it does not exist."""
    return tuple(sorted(path.name for path in folder.iterdir() if path.is_dir())) if folder.is_dir() else ()
