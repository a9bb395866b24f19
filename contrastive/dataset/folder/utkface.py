"""UTKFace with gender as class and race or age as bias, as Hong & Yang 2021 use it."""

import os
from pathlib import Path

import torch

from contrastive.dataset.folder.data import decoded_data
from contrastive.dataset.folder.layout import ImageFile, Listing, Part
from contrastive.errors import ConfigError, check_at_least, check_choice
from contrastive.listing.walk import LeftOut, below, image_paths
from contrastive.seeding import generator
from contrastive.types import Data

BIASES = {"race": ("white", "other"), "age": ("20 or older", "10 or younger")}
ALIGNED = 0.9  # bias-conflicting training images are a tenth of the aligned ones


def utkface(*, root: str = "data/utk_face", bias: str = "race", size: int = 72, cache: str = "data/cache") -> Data:
    """UTKFace (Zhang et al. 2017), https://susanqq.github.io/UTKFace, in the splits of Hong & Yang 2021.

    Men are the first class, women the second. Of four fifths of the images those of men with the first bias and women
    with the second are trained on, and of the others a tenth as many. Of the last fifth, where all are kept, one half
    validates and one tests. The draws are fixed, and others than those of the authors' files.

    Args:
        root: folder with the images, in subfolders or not, named <age>_<gender>_<race>_<date>.jpg.
        bias: `race` (white or other) or `age` (from 20 on, or up to 10; images between are not used).
        size: side of the images in pixels.
        cache: folder for the decoded images, see `image_folder`.

    Shapes: images (N, 3, size, size).

    Raises:
        ConfigError: an argument out of range, or no image named so.
    """
    check_choice("dataset.bias", bias, BIASES)
    check_at_least("dataset.size", size, 1, example=72)
    base, left_out = Path(root), LeftOut()
    found = (
        (_read_name(os.path.relpath(path, base), bias) for path in image_paths(base, left_out)) if base.is_dir() else ()
    )
    files = [file for file in found if file is not None]
    order = torch.randperm(len(files), generator=generator("cpu", "utkface")).tolist()
    files = [files[i] for i in order]
    n_pool = int(0.8 * len(files))
    train: list[ImageFile] = []
    for b in (0, 1):
        aligned = [file for file in files[:n_pool] if file.label == file.bias == b]
        conflicting = [file for file in files[:n_pool] if file.label != file.bias == b]
        train += aligned + conflicting[: int(len(aligned) * (1 - ALIGNED))]
    val, test = files[n_pool::2], files[n_pool + 1 :: 2]
    if not (train and test):
        raise ConfigError(
            f"{base} has no images named <age>_<gender>_<race>_<date>.jpg: put UTKFace there, or try another "
            "dataset.root=PATH"
        )
    trained, validated, tested = (Part(base, files) for files in (train, val, test))
    listed = Listing(("male", "female"), BIASES[bias], trained, validated, tested, left_out=below(base, left_out))
    return decoded_data(listed, size=size, cache=Path(cache), name=f"utkface {bias}")


def _read_name(path: str, bias: str) -> ImageFile | None:
    """The image with class and bias; None for another name, and for an age between the two biases."""
    words = os.path.basename(path).split("_")
    if len(words) != 4 or words[1] not in ("0", "1") or not (words[0].isdigit() and words[2].isdigit()):
        return None
    age, race = int(words[0]), int(words[2])
    if bias == "age" and 10 < age < 20:
        return None
    return ImageFile(path, int(words[1]), int(race != 0 if bias == "race" else age <= 10))
