"""Data that a Python program has: arrays, a torch Dataset, or splits of either."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset
from tqdm import tqdm

from contrastive.dataset.array.rows import as_images
from contrastive.dataset.array.splits import NAMES, Array, Part, as_splits
from contrastive.dataset.folder.bands import GRAY_8, GRAY_16, bands
from contrastive.dataset.folder.decode import is_gray_16, whole_rgb
from contrastive.dataset.splits import as_data, channel_stats, check_data, fingerprint
from contrastive.errors import ConfigError
from contrastive.text import counted
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
    stats = channel_stats(splits.splits["train"].image)
    given: Data = as_data(splits, stats=stats, facts={"dataset_name": name}, hold_out=hold_out)
    return replace(given, digest=_digest_with_val(given)) if "val" in splits.splits else given


def _digest_with_val(data: Data) -> str:
    """Of validation images of their own, too, which choose the settings of probes."""
    judged = replace(data, test=data.probe_val, digest=None)
    return hashlib.sha256(f"{fingerprint(data)} {fingerprint(judged)}".encode()).hexdigest()


def _part(part: Any, what: str) -> Part:
    """Images and labels of one split."""
    if isinstance(part, tuple) and len(part) == 2:
        if isinstance(part[1], Dataset):
            raise ConfigError('data is a pair of Datasets: try data={"train": ..., "test": ...}')
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
    try:
        return values.numpy(force=True) if isinstance(values, Tensor) else np.asarray(values)
    except (TypeError, ValueError) as error:  # rows of several lengths, a dtype of torch alone
        reason = str(error).partition(". ")[0]
        raise ConfigError(f"data has what is no array of numpy ({reason}): try arrays of one shape") from None


def _read(dataset: Any, what: str) -> Part:
    """The items of a Dataset, each read once."""
    try:
        n = len(dataset)
    except (TypeError, NotImplementedError):
        raise ConfigError(f"data is a {type(dataset).__name__} without a length: try data=list(dataset)") from None
    images: Array | None = None
    labels: list[Any] = []
    for i in tqdm(range(n), desc="reading", unit="image", mininterval=1, disable=None):
        try:
            item = dataset[i]
        except Exception as error:
            error.add_note(f"it is item {i} of data that cannot be read")
            raise
        pixels, label = _item(item, i)
        if images is None:
            images = np.empty((n, *pixels.shape), pixels.dtype)
        if pixels.shape != images.shape[1:] or pixels.dtype != images.dtype:
            of_type, of_size = (
                'type, such as image.convert("RGB")',
                "size, such as torchvision.transforms.Resize((64, 64))",
            )
            remedy = of_type if pixels.shape[:2] == images.shape[1:3] else of_size
            raise ConfigError(
                f"image {i} of data is {pixels.dtype} {pixels.shape} and the first one is {images.dtype} "
                f"{images.shape[1:]}: try a transform to one {remedy}"
            )
        if labels and (label is None) != (labels[0] is None):
            raise ConfigError(f"item {i} of data differs from item 0 in having a label: try -1 where there is none")
        images[i] = pixels
        labels.append(label)
    if images is None:
        raise ConfigError(f"{what} are none: try a Dataset with items")
    if images.dtype.kind == "f":
        raise ConfigError(
            f"{what} are {images.dtype}: try the Dataset without ToTensor and without augmentation, which come later"
        )
    return Part(as_images(images, what), None if labels[0] is None else _array(labels))


def _item(item: Any, i: int) -> tuple[Array, Any]:
    """Pixels and label of an image, or of a pair of image and label."""
    if isinstance(item, Mapping):
        keys = ", ".join(map(str, item))
        raise ConfigError(
            f"item {i} of data is a dict of {keys}: try pairs, data=[(x[IMAGE], x[LABEL]) for x in dataset]"
        )
    if isinstance(item, tuple | list) and len(item) != 2:
        raise ConfigError(
            f"item {i} of data has {counted(len(item), 'part')}: try pairs, data=[x[:2] for x in dataset]"
        )
    image, label = item if isinstance(item, tuple | list) else (item, None)
    pixels = _decoded(image, i) if isinstance(image, Image.Image) else _array(image)
    if pixels.dtype.kind not in "biuf" or pixels.ndim not in (2, 3):
        raise ConfigError(
            f"item {i} of data is a {type(image).__name__} and no image: try arrays (height, width, channels), or "
            "dataset=image_folder for files"
        )
    return pixels, label.tolist() if isinstance(label, Tensor | np.ndarray) else label


def _decoded(picture: Image.Image, i: int) -> Array:
    """(h, w, 3) of a PIL image, the pixels that `dataset=image_folder` has of its file; gray stays gray, (h, w)."""
    try:
        if is_gray_16(picture) or picture.mode in ("1", "L", "LA"):
            return bands(picture, None, GRAY_16 if is_gray_16(picture) else GRAY_8).squeeze(0)
        return np.asarray(whole_rgb(picture, 1))
    except (OSError, ValueError) as error:
        raise ConfigError(f"item {i} of data cannot be read ({error}): try it without this item") from error
