"""STL-10 through torchvision."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torchvision.datasets import STL10

from contrastive.dataset._download import fetch
from contrastive.dataset._splits import name_splits
from contrastive.errors import ConfigError
from contrastive.types import Data, Split

MEAN, STD = (0.4408, 0.4279, 0.3867), (0.2682, 0.2610, 0.2686)
CHUNK = 1000


def stl10(*, root: str, size: int, hold_out: bool) -> Data:
    """5,000 labeled and 100,000 unlabeled training images, 8,000 test images, 10 classes (Coates et al. 2011).

    Images of 96 × 96 pixels are shrunk to size × size with antialiasing (the debiased papers train at 32). The
    unlabeled ones have label -1, which no probe and no class ever sees. Downloaded to `root` unless it is there;
    hold_out leaves the validation tenth of the labeled images out of `pretrain`.

    Raises:
        ConfigError: it is not there and cannot be downloaded, or size is out of range.
    """
    if not 8 <= size <= 96:
        raise ConfigError(f"dataset.size must lie in [8, 96], got {size}: try dataset.size=96")
    splits = []
    for name in ("train+unlabeled", "test"):
        raw = fetch(STL10, "stl10_binary.tar.gz", root, split=name)
        splits.append(Split(_shrink(torch.from_numpy(raw.data), size), torch.from_numpy(raw.labels).long()))
    return name_splits(*splits, classes=tuple(raw.classes), hold_out=hold_out, stats=(MEAN, STD))


def _shrink(image: Tensor, size: int) -> Tensor:
    """uint8 (N, 3, 96, 96) → uint8 (N, 3, size, size)."""
    if size == image.shape[-1]:
        return image
    parts = [
        F.interpolate(part.float(), size=(size, size), mode="bilinear", antialias=True).round().to(torch.uint8)
        for part in image.split(CHUNK)
    ]
    return torch.cat(parts)
