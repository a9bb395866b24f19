"""CIFAR-10 and CIFAR-100 through torchvision."""

import torch
from torchvision import datasets

from contrastive.dataset.digits import resize
from contrastive.dataset.download import fetch
from contrastive.dataset.splits import first_per_class, long_tail, name_splits
from contrastive.errors import check_between
from contrastive.types import Data, Split

# Mean and standard deviation per channel as the contrastive papers write them.
CIFAR10_STATS = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
CIFAR100_STATS = (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)


def cifar10(
    *,
    root: str = "data",
    size: int = 32,
    per_class: int | None = None,
    imbalance: float | None = None,
    hold_out: bool = False,
) -> Data:
    """50,000 training and 10,000 test images of 32 × 32 pixels in 10 classes (Krizhevsky 2009).

    Args:
        root: folder that holds the data; downloaded into it when missing.
        size: side of the images in pixels, 4 to 256; other than 32 they are resized with antialiasing.
        per_class: train on the first images of each class only, at least 2; None = all.
        imbalance: make the training images a long tail, the first class with so many times the images of the last (see
            `long_tail`), at least 1; None = as they are.
        hold_out: leave the validation tenth out of `pretrain`.

    Raises:
        ConfigError: the data is missing and cannot be downloaded, or size, per_class or imbalance is out of range.
    """
    train, test, classes = _load(datasets.CIFAR10, "cifar-10-python.tar.gz", root, size)
    train = long_tail(first_per_class(train, per_class), imbalance)
    return name_splits(train, test, classes=classes, hold_out=hold_out, stats=CIFAR10_STATS)


def cifar100(
    *,
    root: str = "data",
    size: int = 32,
    per_class: int | None = None,
    imbalance: float | None = None,
    hold_out: bool = False,
) -> Data:
    """50,000 training and 10,000 test images of 32 × 32 pixels in 100 classes (Krizhevsky 2009).

    Arguments and errors are those of `cifar10`.
    """
    train, test, classes = _load(datasets.CIFAR100, "cifar-100-python.tar.gz", root, size)
    train = long_tail(first_per_class(train, per_class), imbalance)
    return name_splits(train, test, classes=classes, hold_out=hold_out, stats=CIFAR100_STATS)


def _load(dataset: type[datasets.CIFAR10], archive: str, root: str, size: int) -> tuple[Split, Split, tuple[str, ...]]:
    check_between("dataset.size", size, 4, 256, example=16)
    folder = dataset.base_folder
    parts = [fetch(dataset, archive, root, folder=folder, train=train) for train in (True, False)]
    train, test = (
        Split(resize(torch.from_numpy(part.data).permute(0, 3, 1, 2).contiguous(), size), torch.tensor(part.targets))
        for part in parts
    )
    return train, test, tuple(parts[0].classes)
