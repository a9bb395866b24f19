"""STL-10 through torchvision."""

import torch
from torchvision.datasets import STL10

from contrastive.dataset.cifar import CIFAR10_STATS
from contrastive.dataset.digits import resize
from contrastive.dataset.download import fetch
from contrastive.dataset.splits import name_splits
from contrastive.errors import check_between, check_choice
from contrastive.types import Data, Split

STATS = {
    "stl10": ((0.4408, 0.4279, 0.3867), (0.2682, 0.2610, 0.2686)),
    "cifar10": CIFAR10_STATS,  # what the debiased papers standardize STL-10 with
}


def stl10(*, root: str = "data", size: int = 32, stats: str = "stl10", hold_out: bool = False) -> Data:
    """5,000 labeled and 100,000 unlabeled training images, 8,000 test images, 10 classes (Coates et al. 2011).

    The unlabeled images have label -1 and are never used by a probe.

    Args:
        root: folder that holds the data; downloaded into it when missing.
        size: side in [8, 96] pixels; the 96 × 96 originals are resized with antialiasing. The debiased papers keep 96
            and train on crops of 32.
        stats: whose mean and standard deviation standardize the images, `stl10` or `cifar10`.
        hold_out: leave the validation tenth of the labeled images out of `pretrain`.

    Raises:
        ConfigError: an argument out of range, or the data is missing and cannot be downloaded.
    """
    check_between("dataset.size", size, 8, 96, example=96)
    check_choice("dataset.stats", stats, STATS)
    splits = []
    for name in ("train+unlabeled", "test"):
        raw = fetch(STL10, "stl10_binary.tar.gz", root, folder=STL10.base_folder, split=name)
        splits.append(Split(resize(torch.from_numpy(raw.data), size), torch.from_numpy(raw.labels).long()))
    train, test = splits
    return name_splits(train, test, classes=tuple(raw.classes), hold_out=hold_out, stats=STATS[stats])
