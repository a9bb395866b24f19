"""From arrays to the splits of a dataset: one door for files of numpy and for what a Python program has."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from contrastive.dataset.array.rows import chosen_rows
from contrastive.dataset.splits import SPLIT_SEED, stratified
from contrastive.errors import ConfigError
from contrastive.listing.found import Listing
from contrastive.seeding import generator
from contrastive.text import counted
from contrastive.types import Split

TEST_FRACTION, CLASS_TEST_FRACTION = 0.1, 0.2  # of images without labels, and of each class
LEAST = 3  # images of a class that are divided: to train on, to validate and to test
NAMES = {"train": "training", "val": "validation", "test": "test"}
Array = npt.NDArray[Any]


class Part(NamedTuple):
    """Images (n, K, H, W) of one split, and their labels as they are given; None = no image has one."""

    image: Tensor
    label: Array | None


def as_splits(parts: Mapping[str, Part], place: str) -> Listing[Split]:
    """Splits that fit together, a fixed part of the training images as the test split where there is none.

    Args:
        parts: train, and val and test if there are such.
        place: where they are from.

    Raises:
        ConfigError: they do not fit together, labels do not fit their images, or there are too few images.
    """
    check_alike(parts)
    label, classes = as_labels(parts)
    splits = {key: Split(part.image, label[key]) for key, part in parts.items()}
    places = dict.fromkeys(splits, place)
    if "test" not in splits:
        train = splits["train"]
        for key, rows in zip(("train", "test"), divided(train.label, classes), strict=True):
            splits[key] = Split(chosen_rows(train.image, rows), train.label[rows])
        places["test"] = f"a fixed {'fifth of each class' if classes else 'tenth'} of these"
    _, channels, height, width = splits["train"].image.shape
    kind = f"{str(splits['train'].image.dtype).removeprefix('torch.')}, {height} x {width} pixels"
    return Listing(splits, classes, places=places, notes=(f"images are {kind} of {counted(channels, 'channel')}",))


def check_alike(parts: Mapping[str, Part]) -> None:
    """Refuse splits whose images differ in size, channels or type, or of which only some have labels."""
    train = parts["train"]
    for key, (image, label) in parts.items():
        if (image.shape[1:], image.dtype) != (train.image.shape[1:], train.image.dtype):
            raise ConfigError(
                f"the {NAMES[key]} images are {_kind(image)} and the training images {_kind(train.image)}: "
                f"try {NAMES[key]} images of the same size, channels and type"
            )
        if (label is None) != (train.label is None):
            with_labels, without = ("training", NAMES[key]) if label is None else (NAMES[key], "training")
            raise ConfigError(
                f"the {with_labels} images have labels and the {without} images have none: try labels for both, or none"
            )


def _kind(image: Tensor) -> str:
    channels, height, width = image.shape[1:]
    return f"{str(image.dtype).removeprefix('torch.')} of {channels} x {height} x {width}"


def as_labels(parts: Mapping[str, Part]) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Labels as class numbers (n,) int64 of each split, and the names of the classes, which are the values that the
    training images have, in their order; -1 = unlabeled.

    Raises:
        ConfigError: labels that are no whole numbers and no text, not one for each image, or of a test image alone.
    """
    known: list[Any] = []
    if parts["train"].label is not None:
        known = [value for value in np.unique(_values("train", parts["train"])).tolist() if value != -1]
    numbers = {-1: -1} | {value: i for i, value in enumerate(known)}
    label = {}
    for key, part in parts.items():
        values = [-1] * len(part.image) if part.label is None else _values(key, part).tolist()
        if key != "train" and part.label is not None and (unknown := set(values) - set(known)):
            raise ConfigError(
                f"the {NAMES[key]} images have the label {min(unknown)} and no training image has it: try without"
            )
        label[key] = torch.tensor([numbers[value] for value in values])
    return label, tuple(map(str, known))


def _values(key: str, part: Part) -> Array:
    """The labels of a split as whole numbers or text (n,)."""
    n, raw = len(part.image), part.label
    assert raw is not None
    values = raw[:, 0] if raw.shape == (n, 1) else raw  # as MedMNIST has them
    if values.dtype == object and {type(value) for value in values.flat} in ({str}, {int}):  # a column of pandas
        values = np.array(values.tolist())
    if values.shape != (n,) or values.dtype.kind not in "iubU":
        raise ConfigError(
            f"the labels of {n} {NAMES[key]} images are {raw.dtype} {raw.shape}: try whole numbers or text, one for "
            "each image"
        )
    return values


def divided(label: Tensor, classes: tuple[str, ...]) -> tuple[Tensor, Tensor]:
    """Rows to train on and rows to test on: a fixed fifth of each class or, without labels, a fixed tenth.

    Raises:
        ConfigError: there are too few images for both.
    """
    counts = torch.bincount(label[label >= 0], minlength=len(classes)).tolist()
    if few := [f"{name} ({n})" for name, n in zip(classes, counts, strict=True) if n < LEAST]:
        more = " and others" if len(few) > 5 else ""
        raise ConfigError(
            f"class {', '.join(few[:5])}{more} has fewer than {LEAST} labeled images, too few to train, validate and "
            "test on: try more of them, or a test split of its own"
        )
    if len(label) <= LEAST and not classes:
        raise ConfigError(f"{counted(len(label), 'image')} cannot be divided for the test: try at least {LEAST + 1}")
    if classes:
        _, tested = stratified(label, CLASS_TEST_FRACTION, SPLIT_SEED, "test")
    else:
        order = torch.randperm(len(label), generator=generator("cpu", SPLIT_SEED, "test"))
        tested = order[: max(2, round(TEST_FRACTION * len(label)))].sort().values
    kept = torch.ones(len(label), dtype=torch.bool)
    kept[tested] = False
    return kept.nonzero().squeeze(1), tested
