"""Any folder of images: root/train/<class>/* and root/test/<class>/*."""

import hashlib
import re
from pathlib import Path

import torch
from torch import Tensor

from contrastive.dataset._decode import DecodedImages
from contrastive.dataset._folder_cache import SUFFIXES, ImageFile, list_images, load_images, warn_left_out
from contrastive.dataset._splits import first_per_class, name_splits
from contrastive.errors import ConfigError
from contrastive.types import Data, Split


def image_folder(
    *,
    root: str | None = None,
    size: int | None = None,
    name: str | None = None,
    per_class: int | None = None,
    bias_pattern: str | None = None,
    hold_out: bool = False,
    cache: str = "data/cache",
) -> Data:
    """Images in class folders, decoded once into a file that is mapped into memory.

    Every image becomes RGB: any mode is accepted, transparency is put on black, the shorter side is resized to `size`
    and the center cropped. Images that cannot be read are named in a warning and left out. Classes are the folder names
    under train/, sorted. Mean and std are those of the training images. The decoded images may be larger than memory
    (ImageNet-100 at 256 pixels: 25 GB).

    While no file's path, size or modification time changes, a later start reads no image, encoded or decoded. A file
    rewritten with the same size and within one tick of the file system's clock is therefore not noticed: touch it, or
    delete `cache`.

    Args:
        root: the folder that holds train/ and test/.
        size: side of the images in pixels.
        name: of the dataset, recorded by the run; None = the name of the folder.
        per_class: train on the first images of each class, sorted by name, at least 2; None = all. Mean and std remain
            those of all training images.
        bias_pattern: regular expression searched in each path below train/ or test/; its first group names the bias of
            the image (corrupted CIFAR-10: `_([0-9]+)[.]png$`). None = no bias labels.
        hold_out: leave the validation tenth out of `pretrain`, which is then copied into memory.
        cache: folder for the decoded images.

    Shapes: images (N, 3, size, size).

    Raises:
        ConfigError: root or size is missing, a folder is missing or empty, test/ has a class that train/ lacks, or
            bias_pattern does not match a path, or per_class is below 2.
    """
    if root is None:
        raise ConfigError("dataset=image_folder needs the folder that holds train/ and test/: try dataset.root=PATH")
    if size is None:
        raise ConfigError("dataset=image_folder needs the side of its images in pixels: try dataset.size=32")
    if size < 1:
        raise ConfigError(f"dataset.size is a side in pixels, got {size}: try dataset.size=32")
    base = Path(root)
    classes = _classes(base)
    (train, train_files), (test, test_files) = (
        _load(base / part, classes=classes, size=size, cache=Path(cache)) for part in ("train", "test")
    )
    biases, train_bias, test_bias = _bias_labels(train_files, test_files, bias_pattern)
    train_split = Split(train.image, torch.tensor([file.label for file in train_files]), train_bias)
    test_split = Split(test.image, torch.tensor([file.label for file in test_files]), test_bias)
    train_split = first_per_class(train_split, per_class)
    return name_splits(
        train_split,
        test_split,
        classes=classes,
        hold_out=hold_out,
        stats=train.stats,
        biases=biases,
        facts={"dataset_name": name or base.resolve().name},
        digest=_digest((train, train_split), (test, test_split), hold_out=hold_out),
    )


def _classes(base: Path) -> tuple[str, ...]:
    """The class folders of base/train, sorted; raise ConfigError if the folders are not as described."""
    for part in ("train", "test"):
        if not (base / part).is_dir():
            raise ConfigError(
                f"{base / part} is not a folder: put the images into {base}/train/<class>/ "
                f"and {base}/test/<class>/, or run without them: python train.py"
            )
    classes, test_classes = (
        tuple(sorted(path.name for path in (base / part).iterdir() if path.is_dir())) for part in ("train", "test")
    )
    if len(classes) < 2:
        raise ConfigError(
            f"{base / 'train'} has {len(classes)} class folders and at least two are needed: put "
            f"the images into {base}/train/<class>/"
        )
    unknown = [name for name in test_classes if name not in classes]
    if unknown:
        raise ConfigError(
            f"test/ has a class that train/ lacks ({', '.join(unknown[:3])}): "
            f"try mkdir {base}/train/{unknown[0]} and put images of it there"
        )
    return classes


def _load(folder: Path, *, classes: tuple[str, ...], size: int, cache: Path) -> tuple[DecodedImages, list[ImageFile]]:
    """The decoded images of one split and the files they come from; unreadable files are named in warnings."""
    files = list_images(folder, classes)
    if not files:
        raise ConfigError(
            f"{folder} holds no images: put some into {folder}/<class>/ (known are {', '.join(sorted(SUFFIXES))})"
        )
    decoded = load_images(folder, files, classes=classes, size=size, cache=cache)
    for i, fault in decoded.faults.items():
        warn_left_out(folder / files[i].path, fault)
    if len(decoded.image) == 0:
        raise ConfigError(f"none of the {len(files)} images in {folder} can be read: replace them")
    return decoded, [file for i, file in enumerate(files) if i not in decoded.faults]


def _bias_labels(
    train: list[ImageFile], test: list[ImageFile], pattern: str | None
) -> tuple[tuple[str, ...], Tensor | None, Tensor | None]:
    """Names of the biases, sorted, and the bias label of each file; no names and None without a pattern."""
    if pattern is None:
        return (), None, None
    train_names, test_names = _bias_names(train, pattern), _bias_names(test, pattern)
    biases = tuple(sorted({*train_names, *test_names}))
    index = {name: i for i, name in enumerate(biases)}
    train_bias, test_bias = (torch.tensor([index[name] for name in names]) for names in (train_names, test_names))
    return biases, train_bias, test_bias


def _bias_names(files: list[ImageFile], pattern: str) -> list[str]:
    """The first group of the pattern in each path."""
    try:
        matcher = re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"dataset.bias_pattern={pattern} is not a regular expression ({error}): "
            "try 'dataset.bias_pattern=_([0-9]+)[.]png$'"
        ) from None
    names = []
    for file in files:
        match = matcher.search(file.path)
        name = match[1] if match and matcher.groups else None
        if name is None:
            raise ConfigError(
                f"dataset.bias_pattern={pattern} finds no group in {file.path}: "
                "try 'dataset.bias_pattern=_([0-9]+)[.]png$'"
            )
        names.append(name)
    return names


def _digest(*parts: tuple[DecodedImages, Split], hold_out: bool) -> str:
    """sha256 over pixels, labels and biases, with the digest of the pixels in place of the pixels."""
    digest = hashlib.sha256(repr(hold_out).encode())
    for decoded, split in parts:
        digest.update(decoded.digest.encode())
        for value in (split.label, split.bias):
            if value is not None:
                digest.update(repr(len(value)).encode() + value.numpy().tobytes())
    return digest.hexdigest()
