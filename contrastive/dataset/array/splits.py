"""From arrays to the splits of a dataset: one door for files of numpy and for what a Python program has."""

import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import numpy as np
import numpy.typing as npt
import psutil
import torch
from torch import Tensor

from contrastive.dataset.folder.decode import channel_axis
from contrastive.dataset.folder.stored import Stored
from contrastive.dataset.splits import BY_PLACE, divided, drawn
from contrastive.errors import ConfigError
from contrastive.listing.found import Listing
from contrastive.text import counted
from contrastive.types import Split

NAMES = {"train": "training", "val": "validation", "test": "test"}
IN_MEMORY = 2**30  # bytes of chosen rows that are copied into memory
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


def load_array(path: Path, key: str, names: Collection[str]) -> npt.NDArray[Any] | dict[str, npt.NDArray[Any]]:
    """The array of a .npy file, mapped into memory; the arrays of a .npz file by name, read into it.

    Args:
        names: that the arrays of a .npz file may have; the first one must be there.

    Raises:
        ConfigError: there is no such file, it holds something else, or more than fits into memory.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # of a header by Python 2
            loaded = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded, ZipFile(path) as archive:
            n_bytes = sum(member.file_size for member in archive.infolist())
            if n_bytes > (free := psutil.virtual_memory().available):
                raise ConfigError(
                    f"{path} holds {n_bytes / 1e9:.1f} GB and {free / 1e9:.1f} GB of memory are free: try numpy.save "
                    "of each array and dataset.images=x.npy dataset.labels=y.npy, which are read as they are needed"
                )
            if next(iter(names)) not in loaded.files or not set(loaded.files) <= set(names):
                raise ConfigError(
                    f"{path} holds {', '.join(loaded.files) or 'nothing'}: try numpy.save of each and "
                    "dataset.images=x.npy dataset.labels=y.npy, or the names train_images, train_labels, test_images, "
                    "test_labels in one file"
                )
            return {name: np.asarray(loaded[name]) for name in loaded.files}
    except ConfigError:
        raise
    except Exception as error:  # numpy and zipfile raise errors of many kinds for a file that is damaged
        reason = " ".join(str(error).split()).partition(". If you trust")[0] or type(error).__name__
        raise ConfigError(
            f"{path} is no array of numpy ({reason}): try {key}=FILE.npy, as numpy.save writes it"
        ) from error


def as_images(array: npt.NDArray[Any], what: str) -> Tensor:
    """uint8 or uint16 (N, H, W), (N, H, W, K) or (N, K, H, W) → (N, K, H, W) over the same memory.

    Channels are the shorter one of the second and the last axis.

    Raises:
        ConfigError: another shape or dtype.
    """
    if array.dtype.newbyteorder("=") not in (np.uint8, np.uint16):
        values = f" from {array.min():g} to {array.max():g}" if array.size and array.dtype.kind in "biuf" else ""
        raise ConfigError(
            f"{what} are {array.dtype}{values} and must be uint8 or uint16: try x.astype('uint8') of values from 0 to "
            "255, or (x * 255).round().astype('uint8') of values in [0, 1]"
        )
    if array.ndim not in (3, 4) or 0 in array.shape:
        raise ConfigError(f"{what} are {array.shape}: try (N, height, width) or (N, height, width, channels)")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if min(array.strides) < 0:  # x[..., ::-1], BGR as RGB, of which torch makes no tensor
        array = array.copy()
    with warnings.catch_warnings(action="ignore"):  # torch has no read-only tensors: writing to this one would crash
        image = torch.from_numpy(array)
    if image.ndim == 3:
        return image[:, None]
    return image.movedim(channel_axis(array.shape[1:]) + 1, 1)


def chosen_rows(image: Tensor, rows: Tensor) -> Tensor:
    """These rows of (N, K, H, W): copied into memory up to 1 GB, above it read as they are needed."""
    size = len(rows) * image[0].numel() * image.element_size()
    return image[rows] if size <= IN_MEMORY else MappedRows(image, rows).as_tensor()


class MappedRows(Stored):
    """Rows of an array on disk, (n, K, H, W); an index may be a slice, too.

    Args:
        image: (N, K, H, W), mapped.
        rows: (n,) int64.
    """

    def __init__(self, image: Tensor, rows: Tensor) -> None:
        super().__init__(image.shape[1:], image.dtype)
        self.image, self.rows = image, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Tensor | slice) -> Tensor:
        return self.image[self.rows[index]]

    def select(self, index: Tensor) -> "MappedRows":
        return MappedRows(self.image, self.rows[index])
