"""Images and labels in files of numpy."""

import hashlib
import json
from pathlib import Path
from typing import Any, TypedDict

from torch import Tensor

from contrastive.dataset.array.rows import as_images, chosen_rows, load_array
from contrastive.dataset.array.splits import as_labels, divided
from contrastive.dataset.splits import ChannelStats, channel_stats, first_per_class, name_splits
from contrastive.errors import ConfigError
from contrastive.files import file_hash, locked, write_text
from contrastive.schema import misfit
from contrastive.types import Data, Split


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
    """Images of one size in .npy files, which are mapped: memory does not grow with them.

    Images are uint8 or uint16, (N, height, width) or, of K channels, (N, height, width, K) or (N, K, height, width).
    Without test images a fixed fifth of each class is the test split, without labels a fixed tenth of all; of more than
    1 GB the rows stay on disk.

    Args:
        images: file of the training images.
        labels: file of their labels, whole numbers or text, -1 = unlabeled; None = no image has a label.
        test_images: file of the test images; None = a part of `images`.
        test_labels: file of their labels.
        name: of the dataset, recorded by the run; None = that of the file of images.
        per_class: train on the first images of each class, at least 2; None = all.
        hold_out: leave the validation tenth out of `pretrain`.
        cache: folder for what is computed of the files once, while their sizes and modification times stay.

    Shapes: images (N, K, H, W).

    Raises:
        ConfigError: a file is missing or no array, has another shape or dtype, or labels do not fit the images.
    """
    if images is None:
        raise ConfigError(
            "dataset=arrays needs a file of images: try dataset.images=x.npy dataset.labels=y.npy, or "
            "contrastive.pretrain(data=...) with the data that a run from Python was given"
        )
    if (test_images is None) != (test_labels is None) and labels is not None:
        raise ConfigError("test images and their labels belong together: try dataset.test_images=x.npy and test_labels")
    train, test, classes = _splits(images, labels, test_images, test_labels)
    typed = (images, labels, test_images, test_labels)
    facts = _facts([Path(path) for path in typed if path is not None], train.image, Path(cache))
    digest = hashlib.sha256(repr((facts["sha256"], per_class, hold_out)).encode()).hexdigest()
    stats: ChannelStats = (tuple(facts["mean"]), tuple(facts["std"]))
    return name_splits(
        first_per_class(train, per_class) if classes else train,
        test,
        classes=classes,
        hold_out=hold_out and bool(classes),
        stats=stats,
        facts={"dataset_name": name or Path(images).stem},
        digest=digest,
    )


def _splits(
    images: str, labels: str | None, test_images: str | None, test_labels: str | None
) -> tuple[Split, Split, tuple[str, ...]]:
    """The training split, the test split, and the names of the classes."""
    image = as_images(load_array(Path(images), "dataset.images"), f"the images of {images}")
    raw = [None if path is None else load_array(Path(path), "dataset.labels") for path in (labels, test_labels)]
    others = None
    if test_images is not None:
        others = as_images(load_array(Path(test_images), "dataset.test_images"), f"the images of {test_images}")
    label, test_label, classes = as_labels(raw[0], raw[1], n=len(image), n_test=None if others is None else len(others))
    if others is not None and test_label is not None:
        if (others.shape[1:], others.dtype) != (image.shape[1:], image.dtype):
            raise ConfigError(
                f"the test images are {tuple(others.shape[1:])} {others.dtype} and the training images "
                f"{tuple(image.shape[1:])} {image.dtype}: try another dataset.test_images"
            )
        return Split(image, label), Split(others, test_label), classes
    kept, tested = divided(label)
    return Split(chosen_rows(image, kept), label[kept]), Split(chosen_rows(image, tested), label[tested]), classes


def _facts(files: list[Path], image: Tensor, cache: Path) -> Facts:
    """Computed in one pass over the files, or read where that was done."""
    listing: Any = [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    path = cache / f"arrays-{hashlib.sha256(repr(listing).encode()).hexdigest()[:32]}.json"
    with locked(path.with_suffix(".lock")):
        try:
            known: Facts = json.loads(path.read_bytes())
            if misfit(known, Facts) is None:
                return known
        except (OSError, ValueError, RecursionError):
            pass
        mean, std = channel_stats(image)
        content = hashlib.sha256(repr([file_hash(file) for file in files]).encode()).hexdigest()
        facts: Facts = {"mean": list(mean), "std": list(std), "sha256": content}
        write_text(path, json.dumps(facts))
    return facts
