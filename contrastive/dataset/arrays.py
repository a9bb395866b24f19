"""Images and labels in files of numpy."""

import hashlib
from pathlib import Path
from typing import Any, TypedDict

from torch import Tensor

from contrastive.dataset.array.splits import NAMES, Array, Part, as_images, as_splits, load_array
from contrastive.dataset.folder.kept import kept
from contrastive.dataset.splits import as_data, channel_stats, first_per_class
from contrastive.errors import ConfigError
from contrastive.files import file_hash
from contrastive.types import Data

IN_AN_ARCHIVE = [f"{split}_{what}" for split in NAMES for what in ("images", "labels")]  # as MedMNIST calls them


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
    Without test images a fixed fifth of each class is the test split, without labels a fixed tenth of all; of more than
    1 GB the rows stay on disk.

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
    splits = as_splits(
        _parts({key: load_array(path, f"dataset.{key}", IN_AN_ARCHIVE) for key, path in files.items()}, images), images
    )
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
