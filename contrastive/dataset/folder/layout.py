"""Which files of a folder are training, validation and test images, and their classes."""

import hashlib
import os
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import torch

from contrastive.dataset.splits import divided, drawn
from contrastive.errors import ConfigError
from contrastive.listing.found import Listing
from contrastive.listing.names import (
    NO_IMAGE,
    OF_A_TOOL,
    SUFFIXES,
    LeftOut,
    below,
    composed,
    has_an_image,
    has_pictures,
    image_paths,
    is_image,
    is_of_a_tool,
    split_of,
    subfolders,
)
from contrastive.listing.places import check_base
from contrastive.text import counted, printable

BY_NAME = "the file names"
OF_IMAGES = ("image", "images", "img", "imgs", "jpegimages", "photos")  # folders that stand beside those of masks
NOTHING: Mapping[str, str | None] = MappingProxyType({})


class ImageFile(NamedTuple):
    """One image."""

    path: str  # below the folder of its split, or absolute
    label: int = -1
    bias: int = -1
    group: str | None = None  # such as a patient; None = the image is alone


class Part(NamedTuple):
    """One split: the images of `folder`."""

    folder: Path
    files: list[ImageFile]

    @property
    def paths(self) -> list[Path]:
        return [self.folder / file.path for file in self.files]

    @property
    def names(self) -> list[str]:
        return [file.path for file in self.files]

    @property
    def label(self) -> list[int]:
        return [file.label for file in self.files]

    @property
    def bias(self) -> list[int]:
        return [file.bias for file in self.files]


def find_images(base: Path, unlabeled: Path | None = None, splits: Mapping[str, str | None] = NOTHING) -> Listing[Part]:
    """The classes and the images of each split of a folder.

    With two or more folders in base/train each is a class; test images lie in base/test, validation images in base/val,
    which are the test images where there are no others. The words may be spelled otherwise, see `split_of`. Without
    such folders, two or more folders of images in `base` are the classes, and a fifth of each is the test split.
    Otherwise there are no classes and no image has a label. Which images are tested depends on nothing but their names.
    A folder that holds all of the images, as archives unpack, is entered.

    Args:
        unlabeled: a folder of further training images without labels.
        splits: {name of a folder: train, val, test, or None to leave it out} where the name does not tell.

    Raises:
        ConfigError: a folder is missing or has no images, a class has none, or test/ has a class that train/ lacks.
    """
    check_base(base)
    top, left_out = _innermost(base, splits), LeftOut(list)
    folders = _split_folders(top, splits)
    place = folders.get("train", top)
    skip = {folder.name for folder in folders.values()} | {name for name in splits if splits[name] is None}
    classes = _class_folders(place, skip=set() if "train" in folders else skip, must_have_images=place == top)
    if len(classes) > 1 and folders:
        listing = _labeled(base, place, folders, classes, left_out)
    elif len(classes) > 1:
        listing = _divided(base, top, classes, left_out)
    else:
        listing = _unlabeled(base, place, folders, skip, left_out)
    if len(classes) > 1:
        for folder in dict.fromkeys([top, *(part.folder for part in listing.splits.values())]):
            _note_files_of(folder, left_out)
    if unlabeled is not None:
        folder = unlabeled.resolve()
        more = [str(folder / file.path) for file in _images(folder, left_out)]
        judged = [part for name, part in listing.splits.items() if name != "train"]
        known = {os.path.realpath(part.folder / file.path) for part in judged for file in part.files}
        if n := sum(os.path.realpath(path) in known for path in more):
            held = counted(n, "test or validation image")
            raise ConfigError(f"{unlabeled} holds {held}: try another dataset.unlabeled")
        listing.splits["train"].files.extend(map(ImageFile, more))
        listing = listing._replace(places={**listing.places, "train": f"{listing.places['train']} and {unlabeled}/"})
    unused = [name for name in subfolders(top) if folders and place != top and name not in skip]
    notes = (f"not used: {', '.join(f'{name}/' for name in unused)}, no split by name",) if unused else ()
    return listing._replace(left_out=below(base, left_out), notes=(*listing.notes, *notes))


def _innermost(folder: Path, splits: Mapping[str, str | None]) -> Path:
    """Where all images of a folder are in one folder of folders, that one: CUB_200_2011/images/<class>."""
    inner = list(islice((name for name in subfolders(folder) if has_an_image(folder / name)), 2))
    if len(inner) != 1 or has_pictures(folder) or any(_split(name, splits) for name in subfolders(folder)):
        return folder
    return _innermost(folder / inner[0], splits) if subfolders(folder / inner[0]) else folder


def _split(name: str, splits: Mapping[str, str | None]) -> str | None:
    return splits[name] if name in splits else split_of(name)


def _split_folders(top: Path, splits: Mapping[str, str | None]) -> dict[str, Path]:
    """{train, val, test: its folder}. Where none is for training a class may be called `dev`: the usual words alone."""
    meant: dict[str, list[str]] = {}
    for name in subfolders(top):
        if (split := _split(name, splits)) is not None:
            meant.setdefault(split, []).append(name)
    folders = {}
    for split, names in meant.items():
        exact = [name for name in names if name.lower() == split or name in splits]
        if "train" not in meant and not exact:
            continue
        if len(exact or names) > 1:
            one, other = (exact or names)[:2]
            raise ConfigError(
                f"{top} has two folders for {split}, {one}/ and {other}/: try 'dataset.splits={{{other}: null}}'"
            )
        folder = top / (exact or names)[0]
        inner = subfolders(folder)  # Kaggle's seg_train/seg_train/<class>/
        is_twice = len(inner) == 1 and split_of(inner[0]) == split and not has_pictures(folder)
        folders[split] = folder / inner[0] if is_twice else folder
    return folders


def _class_folders(place: Path, *, skip: set[str], must_have_images: bool) -> dict[str, list[str]]:
    """{class: its folders}, sorted; names that differ in their Unicode form alone are one class.

    Args:
        must_have_images: of folders that are beside each other and not in train/: none where an image is beside them.
    """
    if must_have_images and has_pictures(place):
        return {}
    found: dict[str, list[str]] = {}
    for name in subfolders(place):
        if name not in skip and (not must_have_images or has_an_image(place / name)):
            found.setdefault(composed(name), []).append(name)
    return dict(sorted(found.items()))


def _labeled(
    base: Path, place: Path, folders: Mapping[str, Path], classes: Mapping[str, list[str]], left_out: LeftOut
) -> Listing[Part]:
    """base/train/<class>/ with base/test/<class>/, base/val/<class>/ or both."""
    evaluated: dict[str, tuple[Path, dict[str, list[str]]]] = {}
    notes = []
    for split in ("test", "val"):
        if split not in folders:
            continue
        own = _class_folders(folders[split], skip=set(), must_have_images=False)
        unknown = [name for name in own if name not in classes]
        if unknown and (len(own) > len(unknown) or len(own) > 1):
            raise ConfigError(
                f"{folders[split].name}/ has a class that {place.name}/ lacks ({', '.join(unknown[:3])}): "
                f"try mkdir {place}/{unknown[0]} and put images of it there"
            )
        if own and not unknown:
            evaluated[split] = folders[split], {name: own.get(name, []) for name in classes}
        else:
            notes.append(f"not used: {_shown(base, folders[split])} has no folders of the classes")
    if not evaluated:
        raise ConfigError(_no_test(base, place, folders))
    if "test" not in evaluated:
        evaluated["test"] = evaluated.pop("val")
    taken = {"train": (place, classes), **evaluated}
    parts = {name: Part(folder, _images(folder, left_out, classes=own)) for name, (folder, own) in taken.items()}
    with_images = {file.label for file in parts["train"].files}
    if empty := [name for label, name in enumerate(classes) if label not in with_images]:
        raise ConfigError(
            f"class {printable(empty[0])} has no image in {place}/: save them as .jpg or .png, or move the folder away"
        )
    parts = {name: parts[name] for name in ("train", "val", "test") if name in parts}
    places = {name: _shown(base, part.folder) for name, part in parts.items()}
    return Listing(parts, tuple(classes), places=places, notes=tuple(notes))


def _no_test(base: Path, place: Path, folders: Mapping[str, Path]) -> str:
    """The sentence for class folders whose test images are missing, or are in no class folders."""
    lists = [path for split, folder in folders.items() if split != "train" for path in sorted(folder.glob("*.txt"))]
    told = f" ({lists[0]} tells the labels of some)" if lists else ""
    return (
        f"{base} has no test images in folders of the classes{told}: put them into {base}/test/<class>/ or "
        f"{base}/val/<class>/, or try dataset.root={place} to test on a fifth of its images"
    )


def _unlabeled(
    base: Path, place: Path, folders: Mapping[str, Path], skip: set[str], left_out: LeftOut
) -> Listing[Part]:
    """base/train/ with at most one folder in it, or images in `base` itself."""
    if "train" not in folders and subfolders(place) and not has_pictures(place):
        image_paths(place, left_out)
        without = "".join(f", and {why}" for why in below(base, left_out) if why.startswith(NO_IMAGE))
        raise ConfigError(
            f"{base / 'train'} is not a folder{without}: put the images into {base}/train/<class>/ and "
            f"{base}/test/<class>/, or into {base}/train/all/ if they have no labels"
        )
    files = _images(place, left_out, skip=() if "train" in folders else tuple(skip))
    train, test = _shown(base, place), folders.get("test", folders.get("val"))
    if test is not None:
        unused = [_shown(base, folder) for folder in folders.values() if folder not in (place, test)]
        return Listing(
            {"train": Part(place, files), "test": Part(test, _images(test, left_out))}, (),
            places={"train": train, "test": _shown(base, test)}, notes=tuple(f"not used: {name}" for name in unused),
        )  # fmt: skip
    kept, tested = halves(files)
    parts = {"train": Part(place, kept), "test": Part(place, tested)}
    places = {"train": train, "test": drawn(len(tested), len(files), BY_NAME, has_labels=False)}
    names = [name for name in subfolders(place) if name not in skip and has_an_image(place / name)]
    beside = f"{', '.join(f'{name}/' for name in names)} are no classes: images lie beside them"
    notes = (beside,) if len(names) > 1 and "train" not in folders else ()
    return Listing(parts, (), places=places, notes=notes)


def _divided(base: Path, top: Path, classes: Mapping[str, list[str]], left_out: LeftOut) -> Listing[Part]:
    """base/<class>/: a fifth of each class, at least one image, for the test."""
    inner = {name: set(subfolders(top / name)) for names in classes.values() for name in names}
    for name, own in inner.items():
        if "train" in map(split_of, own):
            raise ConfigError(f"{top / name} has a train/ of its own, so it is no class: try dataset.root={top / name}")
        if name.lower() in OF_IMAGES:
            raise ConfigError(
                f"{', '.join(f'{name}/' for name in inner)} of {top} are no classes by their names: try "
                f"dataset.root={top / name}"
            )
    others = [name for name in subfolders(top) if not any(name in names for names in classes.values())]
    notes = [f"{name}/ has no image and is no class" for name in others if image_paths(top / name, left_out) == []]
    train, test = halves(files := _images(top, left_out, classes=classes))
    places = {"train": _shown(base, top), "test": drawn(len(test), len(files), BY_NAME, has_labels=True)}
    parts = {"train": Part(top, train), "test": Part(top, test)}
    return Listing(parts, tuple(classes), places=places, notes=tuple(notes))


def halves(files: list[ImageFile]) -> tuple[list[ImageFile], list[ImageFile]]:
    """Training and test images, see `splits.divided`, chosen by a hash of the names: nearly the same where others come
    or go. The images of a group stay together, and count as one of the class that most of them have."""
    groups = dict[str, list[ImageFile]]()
    for file in files:
        groups.setdefault(file.path if file.group is None else file.group, []).append(file)
    label = [Counter(file.label for file in own).most_common(1)[0][0] for own in groups.values()]
    rank = [int.from_bytes(hashlib.sha256(os.fsencode(name)).digest()[:8]) >> 1 for name in groups]
    _, rows = divided(torch.tensor(label), torch.tensor(rank))
    names = [*groups]
    tested = {file for row in rows.tolist() for file in groups[names[row]]}
    return [file for file in files if file not in tested], [file for file in files if file in tested]


def _note_files_of(top: Path, left_out: LeftOut) -> None:
    """Files and folders of tools beside the folders of classes or splits are left out."""
    for path in sorted(top.iterdir()):
        if is_of_a_tool(path.name):
            left_out[OF_A_TOOL].append(str(path))
        elif path.is_file():
            left_out["beside the folders of the classes" if is_image(path.name) else NO_IMAGE].append(str(path))


def _shown(base: Path, folder: Path) -> str:
    """`Train/`, as it is below the folder that was typed."""
    return f"{folder.name if folder == base else folder.relative_to(base)}/"


def _images(
    folder: Path,
    left_out: LeftOut,
    *,
    classes: Mapping[str, list[str]] = MappingProxyType({}),
    skip: tuple[str, ...] = (),
) -> list[ImageFile]:
    """The images below folder/<class> of each class or, without classes, below the folder but for `skip`."""
    places = [(label, folder / name) for label, names in enumerate(classes.values()) for name in names]
    places = places or [(-1, folder)]
    found = [(path, label) for label, place in places for path in image_paths(place, left_out, skip=skip)]
    files = [ImageFile(os.path.relpath(path, folder), label) for path, label in found]
    if not files:
        raise ConfigError(
            f"{folder} has no images: put them into class folders, {folder}/<class>/, or into {folder} if they have "
            f"no labels (known are {', '.join(SUFFIXES)})"
        )
    return files
