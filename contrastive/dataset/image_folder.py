"""Any folder of images: root/train/<class>/* and root/test/<class>/*."""

import hashlib
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import torch
from tqdm import tqdm

from contrastive.dataset._decode import decoded
from contrastive.dataset._splits import channel_stats, name_splits
from contrastive.errors import ConfigError
from contrastive.types import Data, Split

SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp"}


def image_folder(*, root: str | None, size: int | None, bias: str | None, cache: str, hold_out: bool) -> Data:
    """Images in class folders, decoded once in parallel into one uint8 array that is mapped into memory from disk.

    Every image becomes RGB of size × size pixels: its shorter side is resized to `size` and the center cropped. Any
    mode is accepted; transparency is put on black. Images that cannot be read are named in a warning and left out.
    The decoded images are kept under `cache`, in a file named by the sha256 of every file's name and content and
    of `size`, and may be larger than memory (ImageNet-100 at 256 pixels: 25 GB). Classes are the folder names under
    train/, sorted. Mean and std are those of the training images. `bias` is a regular expression whose first group,
    searched in the path below train/ or test/, names an image's bias (corrupted CIFAR-10: `_([0-9]+)[.]png$`);
    hold_out leaves the validation tenth out of `pretrain`, which is then copied into memory.

    Raises:
        ConfigError: root or size is not given, a folder is missing or empty, test/ has a class that train/ has not.
    """
    if root is None:
        raise ConfigError("dataset=image_folder needs the folder that holds train/ and test/: try dataset.root=PATH")
    if size is None:
        raise ConfigError("dataset=image_folder needs the side of its images in pixels: try dataset.size=32")
    assert root is not None and size is not None
    if not size >= 1:
        raise ConfigError(f"dataset.size is a side in pixels, got {size}: try dataset.size=32")
    base = Path(root)
    for part in ("train", "test"):
        if not (base / part).is_dir():
            raise ConfigError(
                f"{base / part} is not a folder: put the images into {base}/train/<class>/ "
                f"and {base}/test/<class>/, or run without them: python train.py"
            )
    classes = tuple(sorted(p.name for p in (base / "train").iterdir() if p.is_dir()))
    if not len(classes) >= 2:
        raise ConfigError(
            f"{base / 'train'} has {len(classes)} class folders and at least two are needed: put "
            f"the images into {base}/train/<class>/"
        )
    unknown = sorted(p.name for p in (base / "test").iterdir() if p.is_dir() and p.name not in classes)
    if unknown:
        raise ConfigError(
            f"test/ has a class that train/ has not ({', '.join(unknown[:3])}): "
            f"try mkdir {base}/train/{unknown[0] if unknown else ''} and put images of it there"
        )
    (train, paths), (test, test_paths) = (_load(base / part, classes, size, Path(cache)) for part in ("train", "test"))
    biases: tuple[str, ...] = ()
    if bias is not None:
        found, found_test = _biases(paths, bias), _biases(test_paths, bias)
        biases = tuple(sorted({*found, *found_test}))
        index = {name: i for i, name in enumerate(biases)}
        train = replace(train, bias=torch.tensor([index[name] for name in found]))
        test = replace(test, bias=torch.tensor([index[name] for name in found_test]))
    return name_splits(train, test, classes=classes, hold_out=hold_out, stats=channel_stats(train.image), biases=biases)


def _biases(paths: list[str], pattern: str) -> list[str]:
    """What the first group of the pattern matches in each path."""
    try:
        matcher = re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"dataset.bias={pattern} is no regular expression ({error}): try 'dataset.bias=_([0-9]+)[.]png$'"
        ) from None
    found = [matcher.search(path) for path in paths]
    wrong = next((path for path, match in zip(paths, found, strict=True) if not match or not match.groups()), None)
    if wrong is not None:
        raise ConfigError(f"dataset.bias={pattern} finds no group in {wrong}: try 'dataset.bias=_([0-9]+)[.]png$'")
    return [match[1] for match in found if match]


def _load(folder: Path, classes: tuple[str, ...], size: int, cache: Path) -> tuple[Split, list[str]]:
    """One split and the paths of its images under `folder`, from the cache when its files have not changed."""
    paths = [
        (p, c)
        for c, name in enumerate(classes)
        for p in sorted((folder / name).rglob("*"))
        if p.suffix.lower() in SUFFIXES
    ]
    if not paths:
        raise ConfigError(
            f"{folder} holds no images: put some into {folder}/<class>/ (known are {', '.join(sorted(SUFFIXES))})"
        )
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        digest = hashlib.sha256(repr((size, classes)).encode())
        for (path, _), content in zip(paths, pool.map(_digest, (p for p, _ in paths), chunksize=256), strict=True):
            digest.update(str(path.relative_to(folder)).encode() + content)
    image, faults = decoded(
        [path for path, _ in paths], size, cache / f"image_folder-{digest.hexdigest()[:32]}.images", folder.name
    )
    for i, fault in faults.items():
        tqdm.write(f"warning: {paths[i][0]} cannot be read and is left out: {fault}")
    if not len(image) > 0:
        raise ConfigError(f"none of the {len(paths)} images in {folder} can be read: replace them")
    good = [(str(path.relative_to(folder)), c) for i, (path, c) in enumerate(paths) if i not in faults]
    return Split(image, torch.tensor([c for _, c in good])), [name for name, _ in good]


def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()
