"""From arrays to the splits of a dataset: one door for files of numpy and for what a Python program has."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from contrastive.dataset.array.rows import chosen_rows
from contrastive.dataset.splits import BY_PLACE, divided, drawn
from contrastive.errors import ConfigError
from contrastive.listing.found import Listing
from contrastive.text import counted
from contrastive.types import Split

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
    _check_alike(parts)
    label, classes = as_labels(parts)
    splits = {key: Split(part.image, label[key]) for key, part in parts.items()}
    places = dict.fromkeys(splits, place)
    if "test" not in splits:
        whole = splits["train"]
        for key, rows in zip(("train", "test"), divided(whole.label), strict=True):
            splits[key] = Split(chosen_rows(whole.image, rows), whole.label[rows])
        places["test"] = drawn(len(splits["test"]), len(whole), BY_PLACE, has_labels=bool(classes))
    return Listing(splits, classes, places=places, notes=(f"images are {_kind(splits['train'].image)}",))


def _check_alike(parts: Mapping[str, Part]) -> None:
    """Refuse splits whose images differ in size, channels or type, or of which only some have labels."""
    train = parts["train"]
    for key, (image, label) in parts.items():
        if (image.shape[1:], image.dtype) != (train.image.shape[1:], train.image.dtype):
            raise ConfigError(
                f"the {NAMES[key]} images are {_kind(image)} and the training images {_kind(train.image)}: "
                f"try {NAMES[key]} images of the same size, channels and type"
            )
        if (label is None) != (train.label is None):
            raise ConfigError(
                f"of the training and the {NAMES[key]} images one has labels: try labels for both, or none"
            )


def _kind(image: Tensor) -> str:
    _, channels, height, width = image.shape
    return f"{str(image.dtype).removeprefix('torch.')}, {height} x {width} pixels of {counted(channels, 'channel')}"


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
