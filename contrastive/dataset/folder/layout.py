"""Which files of a folder are training images and which are test images, and their classes."""

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from contrastive.dataset.listing.names import PICTURES, SUFFIXES
from contrastive.errors import ConfigError
from contrastive.text import printable

TEST_FOLDERS = ("test", "val")  # the first that exists holds the test images
TEST_FRACTION = 0.1  # of images without labels and without a test folder
CLASS_TEST_FRACTION = 0.2  # of each class, of class folders without train/ and test/
LEAST_TEST = 2  # images; fewer have no pairs


class ImageFile(NamedTuple):
    """One image."""

    path: str  # below the folder of its split, or absolute
    label: int = -1
    bias: int = -1


class Part(NamedTuple):
    """One split: the images of `folder`."""

    folder: Path
    files: list[ImageFile]


def find_images(base: Path, unlabeled: Path | None) -> tuple[tuple[str, ...], Part, Part]:
    """The classes, the training images and the test images of a folder.

    With two or more folders in base/train each is a class; test images lie in base/test or base/val. Without such
    folders, two or more folders of images in `base` are the classes, and a fifth of each is the test split. Otherwise
    there are no classes and no image has a label. Which images are tested depends on nothing but their names.

    Args:
        unlabeled: a folder of further training images without labels.

    Raises:
        ConfigError: a folder is missing or has no images, or test/ has a class that train/ lacks.
    """
    if not base.is_dir():
        raise ConfigError(
            f"{base} is not a folder: put the images into {base}/<class>/, or into {base} if they have no labels, "
            "or run without them: python train.py"
        )
    classes = _subfolders(base / "train")
    test_folder = next((base / name for name in TEST_FOLDERS if (base / name).is_dir()), None)
    if len(classes) > 1:
        train, test = _labeled(base, test_folder, classes)
    elif test_folder is None and len(folders := _class_folders(base)) > 1:
        classes, (train, test) = folders, _divided(base, folders)
    else:
        classes, (train, test) = (), _unlabeled(base, test_folder)
    if unlabeled is not None:
        folder = unlabeled.resolve()
        train.files.extend(ImageFile(str(folder / file.path)) for file in _images(folder))
    return classes, train, test


def _labeled(base: Path, test: Path | None, classes: tuple[str, ...]) -> tuple[Part, Part]:
    """base/train/<class>/ and base/test/<class>/, or base/val/<class>/."""
    if test is None:
        raise ConfigError(
            f"{base} has no test images: put them into {base}/test/<class>/ or {base}/val/<class>/, "
            f"or try dataset.root={base}/train to split its classes, or mv {base}/train {base}/all for no labels"
        )
    unknown = [name for name in _subfolders(test) if name not in classes]
    if unknown:
        raise ConfigError(
            f"{test.name}/ has a class that train/ lacks ({', '.join(unknown[:3])}): "
            f"try mkdir {base}/train/{unknown[0]} and put images of it there"
        )
    train = base / "train"
    return Part(train, _images(train, classes=classes)), Part(test, _images(test, classes=classes))


def _unlabeled(base: Path, test: Path | None) -> tuple[Part, Part]:
    """base/train/ with at most one folder in it, or images in `base` itself."""
    folder = base / "train" if (base / "train").is_dir() else base
    if folder == base and _subfolders(base) and not any(path.suffix.lower() in PICTURES for path in base.iterdir()):
        raise ConfigError(
            f"{base / 'train'} is not a folder: put the images into {base}/train/<class>/ and {base}/test/<class>/, "
            f"or into {base}/train/all/ if they have no labels"
        )
    files = _images(folder, skip=TEST_FOLDERS if folder == base else ())
    if test is not None:
        return Part(folder, files), Part(test, _images(test))
    held_out = _drawn(files, max(LEAST_TEST, round(TEST_FRACTION * len(files))))
    train = [file for file in files if file not in held_out]
    if len(train) < 2:
        raise ConfigError(f"{folder} holds {len(files)} images, too few to train on: put more there")
    return Part(folder, train), Part(folder, [file for file in files if file in held_out])


def _class_folders(base: Path) -> tuple[str, ...]:
    """The folders in `base` that hold images; none where there is a train/ or an image beside them."""
    if (base / "train").is_dir() or any(path.suffix.lower() in PICTURES for path in base.iterdir()):
        return ()
    return tuple(name for name in _subfolders(base) if not name.startswith(".") and image_paths(base / name))


def _divided(base: Path, classes: tuple[str, ...]) -> tuple[Part, Part]:
    """base/<class>/: a fifth of each class, at least one image, for the test."""
    files, held_out = _images(base, classes=classes), set[ImageFile]()
    for label in range(len(classes)):
        own = [file for file in files if file.label == label]
        held_out |= _drawn(own, max(1, round(CLASS_TEST_FRACTION * len(own))))
    return (
        Part(base, [file for file in files if file not in held_out]),
        Part(base, [file for file in files if file in held_out]),
    )


def _drawn(files: list[ImageFile], n: int) -> set[ImageFile]:
    """n of the files, by a hash of each name: nearly the same where others come or go."""
    return set(sorted(files, key=lambda file: hashlib.sha256(os.fsencode(file.path)).digest())[:n])


def _subfolders(folder: Path) -> tuple[str, ...]:
    """Names of the folders in a folder, sorted; none if it does not exist."""
    return tuple(sorted(path.name for path in folder.iterdir() if path.is_dir())) if folder.is_dir() else ()


def _images(folder: Path, *, classes: tuple[str, ...] = (), skip: tuple[str, ...] = ()) -> list[ImageFile]:
    """The images below folder/<class> of each class or, without classes, below the folder but for `skip`."""
    files = [
        ImageFile(os.path.relpath(path, folder), label)
        for label, place in ([(i, folder / name) for i, name in enumerate(classes)] or [(-1, folder)])
        for path in image_paths(place, skip)
    ]
    if not files:
        raise ConfigError(
            f"{folder} has no images: put them into class folders, {folder}/<class>/, or into {folder} if they have "
            f"no labels (known are {', '.join(SUFFIXES)})"
        )
    return files


def image_paths(folder: Path, skip: tuple[str, ...] = ()) -> list[str]:
    """The image files below a folder but for the folders `skip`, sorted; what cannot be read is named in a warning."""
    files = []
    for top, folders, names in os.walk(folder, onerror=lambda e: warn_left_out(e.filename, e.strerror or "")):
        if top == str(folder):
            folders[:] = [name for name in folders if name not in skip]
        for name in folders:
            if os.path.islink(path := os.path.join(top, name)):  # os.walk does not enter it: it could be a circle
                warn_left_out(path, "it is a link to a folder: try a copy, or a link to each image")
        for name in names:
            if os.path.splitext(name)[1].lower() not in SUFFIXES:
                continue
            if os.path.isfile(path := os.path.join(top, name)):
                files.append(path)
            else:  # a pipe, a device, a link that leads nowhere
                warn_left_out(path, "it is not a file")
    return sorted(files, key=lambda path: path.split(os.sep))


def warn_left_out(path: str | Path, reason: str) -> None:
    """Say that an image is left out."""
    tqdm.write(printable(f"warning: {path} cannot be read and is left out: {reason}"))
