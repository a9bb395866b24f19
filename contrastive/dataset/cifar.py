"""CIFAR-10 and CIFAR-100 through torchvision."""

import torch
from torchvision import datasets

from contrastive.dataset._download import fetch
from contrastive.dataset._splits import name_splits
from contrastive.types import Data, Split

# Mean and standard deviation per channel as the contrastive papers write them.
CIFAR10_STATS = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
CIFAR100_STATS = (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)


def cifar10(*, root: str = "data", hold_out: bool = False) -> Data:
    """50,000 training and 10,000 test images of 32 × 32 pixels in 10 classes (Krizhevsky 2009).

    Args:
        root: folder that holds the data; downloaded into it when missing.
        hold_out: leave the validation tenth out of `pretrain`.

    Raises:
        ConfigError: the data is missing and cannot be downloaded.
    """
    train, test, classes = _load(datasets.CIFAR10, "cifar-10-python.tar.gz", root)
    return name_splits(train, test, classes=classes, hold_out=hold_out, stats=CIFAR10_STATS)


def cifar100(*, root: str = "data", hold_out: bool = False) -> Data:
    """50,000 training and 10,000 test images of 32 × 32 pixels in 100 classes (Krizhevsky 2009).

    Args:
        root: folder that holds the data; downloaded into it when missing.
        hold_out: leave the validation tenth out of `pretrain`.

    Raises:
        ConfigError: the data is missing and cannot be downloaded.
    """
    train, test, classes = _load(datasets.CIFAR100, "cifar-100-python.tar.gz", root)
    return name_splits(train, test, classes=classes, hold_out=hold_out, stats=CIFAR100_STATS)


def _load(dataset: type[datasets.CIFAR10], archive: str, root: str) -> tuple[Split, Split, tuple[str, ...]]:
    parts = [fetch(dataset, archive, root, train=train) for train in (True, False)]
    train, test = (
        Split(torch.from_numpy(part.data).permute(0, 3, 1, 2).contiguous(), torch.tensor(part.targets))
        for part in parts
    )
    return train, test, tuple(parts[0].classes)
