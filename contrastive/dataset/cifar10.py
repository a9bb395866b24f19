"""CIFAR-10 through torchvision."""

from pathlib import Path
from urllib.error import URLError

import torch
from torchvision.datasets import CIFAR10

from contrastive.refusal import Refusal
from contrastive.split import name_splits
from contrastive.types import Data, Split

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)  # as every contrastive paper normalises it
ARCHIVE = "cifar-10-python.tar.gz"


def cifar10(*, root: str) -> Data:
    """50,000 training and 10,000 test images of 32 × 32 pixels, 10 classes (Krizhevsky 2009).

    Downloaded to `root` unless it is there.

    Raises:
        Refusal: it is not there and cannot be downloaded.
    """
    splits = []
    for train in (True, False):
        try:
            raw = CIFAR10(root, train=train, download=True)
        except (URLError, OSError, RuntimeError) as error:
            reason = getattr(error, "reason", error)
            raise Refusal(f"CIFAR-10 cannot be downloaded ({reason}): put {ARCHIVE} into {Path(root).resolve()} and "
                          "type the same again, or run without it: python train.py dataset=digits") from error
        image = torch.from_numpy(raw.data).permute(0, 3, 1, 2).contiguous()
        splits.append(Split(image, torch.tensor(raw.targets)))
    return name_splits(*splits, classes=tuple(raw.classes), stats=(MEAN, STD))
