"""Data that a Python program has: arrays, a torch Dataset, or splits of either."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.utils.data import Dataset
from tqdm import tqdm

from contrastive.dataset.array.rows import as_images, chosen_rows
from contrastive.dataset.array.splits import as_labels, divided
from contrastive.dataset.splits import channel_stats, name_splits
from contrastive.errors import ConfigError
from contrastive.types import Data, Split

Array = npt.NDArray[Any]


def given_data(data: Any, *, name: str, hold_out: bool = False) -> Data:
    """Data as a run needs it.

    Args:
        data: images (N, H, W), (N, H, W, K) or (N, K, H, W), uint8 or uint16, in an array or a tensor; a pair of these
            and labels (N,); a torch `Dataset` with a length, whose items are images or pairs of image and label; or
            {"train": ..., "test": ...} of such. Without a test split a fixed fifth of each class, or a tenth, is it.
            A `Data` is what it is.
        name: recorded by the run.
        hold_out: leave the validation tenth out of `pretrain`.

    Raises:
        ConfigError: something else, or images of several sizes.
    """
    if isinstance(data, Data):
        return data
    parts = dict(data) if isinstance(data, Mapping) else {"train": data}
    if not parts.keys() <= {"train", "test"} or "train" not in parts:
        raise ConfigError(f'data has the splits {", ".join(map(str, parts))}: try {{"train": ..., "test": ...}}')
    pairs = {key: _pair(part, f"the {key} images") for key, part in parts.items()}
    (image, raw), (others, test_raw) = pairs["train"], pairs.get("test", (None, None))
    n_test = None if others is None else len(others)
    label, test_label, classes = as_labels(raw, test_raw, n=len(image), n_test=n_test)
    if others is None or test_label is None:
        kept, tested = divided(label)
        train, test = (Split(chosen_rows(image, rows), label[rows]) for rows in (kept, tested))
    else:
        train, test = Split(image, label), Split(others, test_label)
    return name_splits(
        train,
        test,
        classes=classes,
        hold_out=hold_out and bool(classes),
        stats=channel_stats(train.image),
        facts={"dataset_name": name},
    )


def _pair(part: Any, what: str) -> tuple[Tensor, Array | None]:
    """Images (N, K, H, W) and labels of one split."""
    if isinstance(part, tuple) and len(part) == 2:
        return as_images(_array(part[0]), what), _array(part[1])
    if isinstance(part, np.ndarray | Tensor):
        return as_images(_array(part), what), None
    if isinstance(part, Dataset | Sequence):
        return _read(part, what)
    raise ConfigError(f"data is a {type(part).__name__}: try data=(images, labels), or a torch Dataset with a length")


def _array(values: Any) -> Array:
    return values.numpy() if isinstance(values, Tensor) else np.asarray(values)


def _read(dataset: Any, what: str) -> tuple[Tensor, Array | None]:
    """The items of a Dataset, each read once."""
    images: Array | None = None
    labels = []
    for i in tqdm(range(len(dataset)), desc="reading", unit="image", mininterval=1):
        item = dataset[i]
        image, label = item if isinstance(item, tuple | list) and len(item) == 2 else (item, None)
        pixels = _array(image)
        if images is None:
            images = np.empty((len(dataset), *pixels.shape), pixels.dtype)
        if pixels.shape != images.shape[1:] or pixels.dtype != images.dtype:
            raise ConfigError(
                f"image {i} of data is {pixels.dtype} {pixels.shape} and the first one is {images.dtype} "
                f"{images.shape[1:]}: try a transform to one size, such as torchvision.transforms.Resize((64, 64))"
            )
        images[i] = pixels
        labels.append(label)
    if images is None:
        raise ConfigError(f"{what} are none: try a Dataset with items")
    if images.dtype.kind == "f":
        raise ConfigError(
            f"{what} are {images.dtype}: try the Dataset without ToTensor and without augmentation, which come later"
        )
    return as_images(images, what), None if labels[0] is None else np.asarray([_plain(label) for label in labels])


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, Tensor) else label
