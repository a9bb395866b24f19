"""scikit-learn's bundled digits."""

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import ConfigError


def load_digits(size: int) -> tuple[Tensor, Tensor]:
    """1,797 handwritten digits (UCI, Alpaydin & Kaynak 1998): image (1797, size, size) uint8, label (1797,) int64.

    The 8 × 8 gray values 0..16 are scaled to 0..255 and resized bilinearly.

    Raises:
        ConfigError: size below 8, or scikit-learn is not installed.
    """
    if not size >= 8:
        raise ConfigError(f"dataset.size must be at least 8, got {size}: try dataset.size=16")
    try:
        from sklearn import datasets  # 43 MB of wheels that only the digits need
    except ImportError:
        raise ConfigError("the digits come with scikit-learn, which is not installed: try pip install scikit-learn")
    raw = datasets.load_digits()
    image = torch.from_numpy(raw.images).to(torch.float32)[:, None] * (255 / 16)
    image = F.interpolate(image, size=(size, size), mode="bilinear", align_corners=False).round().to(torch.uint8)
    return image.squeeze(1), torch.from_numpy(raw.target).long()
