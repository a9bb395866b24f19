"""Data that a Python program has: arrays, a torch Dataset, or splits of either."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset
from tqdm import tqdm

from contrastive.dataset.array.splits import NAMES, Array, Part, as_images, as_splits
from contrastive.dataset.folder.decode import GRAY_8, GRAY_16, is_gray_16, pixels
from contrastive.dataset.splits import as_data, channel_stats, check_data, tensor_hash
from contrastive.errors import ConfigError
from contrastive.types import Data


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
    splits = as_splits(read, "given in Python")
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
        pixels, label = _item(dataset[i], i)
        if pixels.shape != first.shape or pixels.dtype != first.dtype:
            raise ConfigError(
                f"image {i} of data is {pixels.dtype} {pixels.shape} and the first one is {first.dtype} {first.shape}: "
                'try a transform to one size and type, such as image.convert("RGB").resize((64, 64))'
            )
        images[i] = pixels
        labels.append(label)
    return Part(as_images(images, what), None if labels[0] is None else _array(labels))


def _item(item: Any, i: int) -> tuple[Array, Any]:
    """Pixels and label of an image, or of a pair of image and label."""
    image, label = item if isinstance(item, tuple | list) and len(item) == 2 else (item, None)
    if isinstance(image, Image.Image):
        pixels = _decoded(image, i)
    elif isinstance(image, np.ndarray | Tensor):
        pixels = _array(image)
    else:
        raise ConfigError(
            f"item {i} of data is a {type(image).__name__}: try pairs of image and label, "
            'data=[(x["image"], x["label"]) for x in dataset]'
        )
    return pixels, label.tolist() if isinstance(label, Tensor | np.ndarray) else label


def _decoded(picture: Image.Image, i: int) -> Array:
    """(h, w, 3) of a PIL image, the pixels that `dataset=image_folder` has of its file; gray stays gray, (h, w)."""
    try:
        if is_gray_16(picture) or picture.mode in ("1", "L", "LA"):
            return pixels(picture, None, GRAY_16 if is_gray_16(picture) else GRAY_8).squeeze(0)
        return pixels(picture, None).transpose(1, 2, 0)
    except (OSError, ValueError) as error:
        raise ConfigError(f"item {i} of data cannot be read ({error}): try it without this item") from error
