"""CIFAR-100 through torchvision."""

import torch
from torchvision.datasets import CIFAR100

from contrastive.download import fetch
from contrastive.split import name_splits
from contrastive.types import Data, Split

MEAN, STD = (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)


def cifar100(*, root: str, hold_out: bool) -> Data:
    """50,000 training and 10,000 test images of 32 × 32 pixels, 100 classes (Krizhevsky 2009).

    Downloaded to `root` unless it is there; hold_out leaves the validation tenth out of `pretrain`.

    Raises:
        Refusal: it is not there and cannot be downloaded.
    """
    splits = []
    for train in (True, False):
        raw = fetch(CIFAR100, "cifar-100-python.tar.gz", root, train=train)
        splits.append(Split(torch.from_numpy(raw.data).permute(0, 3, 1, 2).contiguous(), torch.tensor(raw.targets)))
    return name_splits(*splits, classes=tuple(raw.classes), hold_out=hold_out, stats=(MEAN, STD))
