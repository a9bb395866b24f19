"""Corrupted CIFAR-10 and bFFHQ: folders in the layout of Lee et al. 2021, whose file names tell label and bias."""

import os
import re
from pathlib import Path

from contrastive.dataset.folder.data import decoded_data
from contrastive.dataset.folder.layout import ImageFile, Listing, Part
from contrastive.errors import ConfigError, check_at_least, check_between
from contrastive.listing.walk import LeftOut, below, image_paths
from contrastive.text import printable
from contrastive.types import Data

LABEL_AND_BIAS = re.compile(r"_(\d+)_(\d+)\.\w+$")  # <index>_<label>_<bias>.png


def corrupted_cifar10(
    *,
    root: str = "data/cifar10c",
    rho: float = 0.995,
    size: int = 32,
    conflicting_test: bool = False,
    cache: str = "data/cache",
) -> Data:
    """CIFAR-10 with one of ten corruptions, the same for rho of the images of a class (Nam et al. 2020).

    It is not made here out of CIFAR-10: the libraries of corruptions have the strengths of ImageNet-C, and Nam et al.
    made the set with weaker ones for 32 pixels.

    Args:
        root: the folder cifar10c, laid out as `align_conflict` says.
        rho: fraction of bias-aligned training images: 0.995, 0.99, 0.98 and 0.95 are distributed.
        size: side of the images in pixels.
        conflicting_test: test on the bias-conflicting images only.
        cache: folder for the decoded images, see `image_folder`.

    Shapes: images (N, 3, size, size).

    Raises:
        ConfigError: an argument out of range, a folder without images, or a file named otherwise.
    """
    return align_conflict(root, rho=rho, size=size, conflicting_test=conflicting_test, cache=cache)


def bffhq(
    *,
    root: str = "data/bffhq",
    rho: float = 0.995,
    size: int = 224,
    conflicting_test: bool = True,
    cache: str = "data/cache",
) -> Data:
    """Faces, young or old, with gender as bias (bFFHQ, Kim et al. 2021); see `corrupted_cifar10`.

    Of rho only 0.995 is distributed. It is reported on the bias-conflicting test images.
    """
    return align_conflict(root, rho=rho, size=size, conflicting_test=conflicting_test, cache=cache)


def align_conflict(root: str, *, rho: float, size: int, conflicting_test: bool, cache: str) -> Data:
    """Images named <index>_<label>_<bias>.png, as https://github.com/kakaoenterprise/Learning-Debiased-Disentangled
    distributes them; classes and biases are numbers, and of a bias-aligned image they are equal.

    Training images lie in root/<share>/align and root/<share>/conflict, validation images in root/<share>/valid or
    root/valid, test images in root/test, all in subfolders or not; <share> is 0.5pct where rho is 0.995.
    """
    check_between("dataset.rho", rho, 0, 1, example=0.995)
    check_at_least("dataset.size", size, 1, example=32)
    base, left_out = Path(root), LeftOut()
    share = base / f"{100 * (1 - rho):.4g}pct"
    named = {
        "train": [*_named(share / "align", left_out), *_named(share / "conflict", left_out)],
        "val": _named(share / "valid" if (share / "valid").is_dir() else base / "valid", left_out),
        "test": [file for file in _named(base / "test", left_out) if not conflicting_test or file[1] != file[2]],
    }
    every = [file for files in named.values() for file in files]
    classes, biases = (sorted({file[i] for file in every}) for i in (1, 2))
    parts = {
        name: Part(
            base,
            [ImageFile(os.path.relpath(path, base), classes.index(y), biases.index(b)) for path, y, b in files],
        )
        for name, files in named.items()
    }
    listed = Listing(
        tuple(map(str, classes)),
        tuple(map(str, biases)),
        parts["train"],
        parts["val"],
        parts["test"],
        left_out=below(base, left_out),
    )
    return decoded_data(listed, size=size, cache=Path(cache), name=base.resolve().name)


def _named(folder: Path, left_out: LeftOut) -> list[tuple[str, int, int]]:
    """(path, label, bias) of the images below a folder."""
    paths = image_paths(folder, left_out) if folder.is_dir() else []
    if not paths:
        raise ConfigError(
            f"{folder} has no images: put those of https://github.com/kakaoenterprise/Learning-Debiased-Disentangled "
            "there, or try another dataset.root=PATH or dataset.rho"
        )
    files = []
    for path in paths:
        match = LABEL_AND_BIAS.search(path)
        if match is None:
            raise ConfigError(f"{printable(path)} is not named <index>_<label>_<bias>.png: try another dataset.root")
        files.append((path, int(match[1]), int(match[2])))
    return files
