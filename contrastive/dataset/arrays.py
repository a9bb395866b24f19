"""Images and labels in arrays: files of numpy, or what a Python program has."""

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict
from zipfile import ZipFile

import numpy as np
import psutil
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset
from tqdm import tqdm

from contrastive.dataset.folder.decode import GRAY_8, GRAY_16, Array, channel_axis, is_gray_16, pixels
from contrastive.dataset.splits import (
    BY_PLACE,
    as_data,
    channel_stats,
    check_data,
    divided,
    drawn,
    first_per_class,
    tensor_hash,
)
from contrastive.errors import ConfigError
from contrastive.files import file_hash, kept
from contrastive.listing.found import Listing
from contrastive.text import counted
from contrastive.types import Data, Split

NAMES = {"train": "training", "val": "validation", "test": "test"}
IN_AN_ARCHIVE = [f"{split}_{what}" for split in NAMES for what in ("images", "labels")]  # as MedMNIST calls them


class Part(NamedTuple):
    """Images (n, K, H, W) of one split, and their labels as they are given; None = no image has one."""

    image: Tensor
    label: Array | None


class Facts(TypedDict):
    """What is computed of the files once: statistics of the training images, and a hash of all."""

    mean: list[float]
    std: list[float]
    sha256: str


def arrays(
    *,
    images: str | None = None,
    labels: str | None = None,
    test_images: str | None = None,
    test_labels: str | None = None,
    name: str | None = None,
    per_class: int | None = None,
    hold_out: bool = False,
    cache: str = "data/cache",
) -> Data:
    """Images of one size in .npy files, which are mapped: memory does not grow with them. Or all in one .npz file.

    Images are uint8 or uint16, (N, height, width) or, of K channels, (N, height, width, K) or (N, K, height, width).
    Without test images a fixed fifth of each class is the test split, without labels a fixed tenth of all, and the
    rows are copied into memory.

    Args:
        images: file of the training images; or a .npz file with train_images, train_labels, val_images, val_labels,
            test_images and test_labels as MedMNIST has them, which is read into memory. Those of val and test may be
            missing. Probes are selected on val.
        labels: file of their labels (N,) or (N, 1), whole numbers or text, -1 = unlabeled; None = no image has a label.
        test_images: file of the test images; None = a part of `images`.
        test_labels: file of their labels.
        name: of the dataset, recorded by the run; None = that of the file of images.
        per_class: train on the first images of each class, at least 2; None = all.
        hold_out: leave the validation tenth out of `pretrain`.
        cache: folder for what is computed of the files once, while their sizes and modification times stay.

    Shapes: images (N, K, H, W).

    Raises:
        ConfigError: a file is missing or no array, has another shape or dtype, labels do not fit the images, or the
            splits do not fit together.
    """
    if images is None:
        raise ConfigError(
            "dataset=arrays needs a file of images: try dataset.images=x.npy dataset.labels=y.npy, or "
            "contrastive.pretrain(data=...) with the data that a run from Python was given"
        )
    typed = {"images": images, "labels": labels, "test_images": test_images, "test_labels": test_labels}
    files = {key: Path(path) for key, path in typed.items() if path is not None}
    splits = _as_splits(_parts({key: _load(path, f"dataset.{key}") for key, path in files.items()}, images), images)
    train = splits.splits["train"]
    facts = _facts([*files.values()], train.image, Path(cache))
    if splits.classes:
        splits.splits["train"] = first_per_class(train, per_class)
    return as_data(
        splits,
        stats=(tuple(facts["mean"]), tuple(facts["std"])),
        facts={"dataset_name": name or Path(images).stem},
        hold_out=hold_out,
        images={"train": facts["sha256"]},
    )


def _parts(loaded: dict[str, Array | dict[str, Array]], images: str) -> dict[str, Part]:
    """The splits in the arrays of the settings, or in one archive that holds all of them by MedMNIST's names."""
    archive = loaded["images"]
    if isinstance(archive, dict) and len(loaded) == 1:
        arrays_of: dict[str, Any] = archive
    else:
        arrays_of = {key if key.startswith("test") else f"train_{key}": value for key, value in loaded.items()}
    parts = {}
    for split, name in NAMES.items():
        image, label = (arrays_of.get(f"{split}_{what}") for what in ("images", "labels"))
        if isinstance(image, dict) or isinstance(label, dict) or (image is None and label is not None):
            raise ConfigError(f"{name} images and labels are an array each: try FILE.npy, as numpy.save writes it")
        if image is not None:
            parts[split] = Part(as_images(image, f"the {name} images of {images}"), label)
    return parts


def _facts(files: list[Path], image: Tensor, cache: Path) -> Facts:
    """Computed in one pass over the files, or read where that was done."""
    listing: Any = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    path = cache / f"arrays-{hashlib.sha256(repr(listing).encode()).hexdigest()[:32]}.json"

    def make() -> Facts:
        mean, std = channel_stats(image)
        content = hashlib.sha256(repr([file_hash(file) for file in files]).encode()).hexdigest()
        return {"mean": list(mean), "std": list(std), "sha256": content}

    return kept(path, Facts, make)


def _load(path: Path, key: str) -> Array | dict[str, Array]:
    """The array of a .npy file, mapped into memory; the arrays of a .npz file by name, read into it."""
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
            if IN_AN_ARCHIVE[0] not in loaded.files or not {*loaded.files} <= {*IN_AN_ARCHIVE}:
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


def given_data(data: Any, *, name: str, hold_out: bool = False) -> Data:
    """Data as a run needs it.

    Args:
        data: images (N, H, W), (N, H, W, K) or (N, K, H, W), uint8 or uint16, in an array or a tensor; a pair of these
            and labels (N,); a torch `Dataset` with a length, whose items are images or pairs of image and label; or
            {"train": ..., "val": ..., "test": ...} of such. Without a test split a fixed fifth of each class, or a
            tenth, is it; without a val split a fixed tenth. A `Data` is what it is.
        name: recorded by the run.
        hold_out: leave the validation tenth out of `pretrain`.

    Raises:
        ConfigError: something else, images of several sizes, or too few.
    """
    if isinstance(data, Data):
        check_data(data, "data")
        return data
    parts = data if isinstance(data, Mapping) else {"train": data}
    if not parts.keys() <= NAMES.keys() or "train" not in parts:
        raise ConfigError(
            f'data has the splits {", ".join(map(str, parts)) or "{}"}: try {{"train": ..., "test": ...}}'
        )
    read = {key: _part(part, f"the {NAMES[key]} images") for key, part in parts.items()}
    splits = _as_splits(read, "given in Python")
    return as_data(
        splits,
        stats=channel_stats(splits.splits["train"].image),
        facts={"dataset_name": name},
        hold_out=hold_out,
        images={key: tensor_hash(part.image) for key, part in read.items()},
    )


def _part(part: Any, what: str) -> Part:
    """Images and labels of one split."""
    if isinstance(part, tuple) and len(part) == 2:
        return Part(_part(part[0], what).image, _array(part[1]))
    if isinstance(part, np.ndarray | Tensor):
        return Part(as_images(_array(part), what), None)
    if isinstance(part, Dataset | Sequence) and not isinstance(part, str):
        return _read(part, what)
    raise ConfigError(
        f"data is a {type(part).__name__}: try data=(images, labels), a torch Dataset with a length, or "
        'data=[(x["image"], x["label"]) for x in dataset]'
    )


def _array(values: Any) -> Array:
    return values.numpy(force=True) if isinstance(values, Tensor) else np.asarray(values)


def _read(dataset: Any, what: str) -> Part:
    """The items of a Dataset, each read once."""
    first, label = _item(dataset[0], 0)
    images, labels = np.empty((len(dataset), *first.shape), first.dtype), [label]
    images[0] = first
    for i in tqdm(range(1, len(dataset)), desc="reading", unit="image", mininterval=1, disable=None):
        image, label = _item(dataset[i], i)
        if image.shape != first.shape or image.dtype != first.dtype:
            raise ConfigError(
                f"image {i} of data is {image.dtype} {image.shape} and the first one is {first.dtype} {first.shape}: "
                'try a transform to one size and type, such as image.convert("RGB").resize((64, 64))'
            )
        images[i] = image
        labels.append(label)
    return Part(as_images(images, what), None if labels[0] is None else _array(labels))


def _item(item: Any, i: int) -> tuple[Array, Any]:
    """Pixels and label of an image, or of a pair of image and label."""
    image, label = item if isinstance(item, tuple | list) and len(item) == 2 else (item, None)
    if isinstance(image, Image.Image):
        array = _decoded(image, i)
    elif isinstance(image, np.ndarray | Tensor):
        array = _array(image)
    else:
        raise ConfigError(
            f"item {i} of data is a {type(image).__name__}: try pairs of image and label, "
            'data=[(x["image"], x["label"]) for x in dataset]'
        )
    return array, label.tolist() if isinstance(label, Tensor | np.ndarray) else label


def _decoded(picture: Image.Image, i: int) -> Array:
    """(h, w, 3) of a PIL image, the pixels that `dataset=image_folder` has of its file; gray stays gray, (h, w)."""
    try:
        if is_gray_16(picture) or picture.mode in ("1", "L", "LA"):
            return pixels(picture, None, GRAY_16 if is_gray_16(picture) else GRAY_8).squeeze(0)
        return pixels(picture, None).transpose(1, 2, 0)
    except (OSError, ValueError) as error:
        raise ConfigError(f"item {i} of data cannot be read ({error}): try it without this item") from error


def _as_splits(parts: Mapping[str, Part], place: str) -> Listing[Split]:
    """Splits that fit together, a fixed part of the training images as the test split where there is none.

    Args:
        parts: train, and val and test if there are such.
        place: where they are from.

    Raises:
        ConfigError: they do not fit together, labels do not fit their images, or there are too few images.
    """
    _check_alike(parts)
    label, classes = _as_labels(parts)
    splits = {key: Split(part.image, label[key]) for key, part in parts.items()}
    places = dict.fromkeys(splits, place)
    if "test" not in splits:
        whole = splits["train"]
        for key, rows in zip(("train", "test"), divided(whole.label), strict=True):
            splits[key] = whole[rows]
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


def _as_labels(parts: Mapping[str, Part]) -> tuple[dict[str, Tensor], tuple[str, ...]]:
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


def as_images(array: Array, what: str) -> Tensor:
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
