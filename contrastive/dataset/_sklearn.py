"""Load the digits that are bundled with scikit-learn."""

import torch
import torch.nn.functional as F

from contrastive.dataset._gray import GrayImages
from contrastive.dataset._splits import stratified
from contrastive.errors import ConfigError

TEST_FRACTION = 0.2


def load_digits(size: int) -> tuple[GrayImages, GrayImages]:
    """1,797 handwritten digits (UCI, Alpaydin & Kaynak 1998), resized to size × size: training and test split.

    The 8 × 8 gray values 0..16 are scaled to 0..255 and resized bilinearly. A fixed stratified fifth is the test split.

    Raises:
        ConfigError: size below 8, or scikit-learn is not installed.
    """
    if size < 8:
        raise ConfigError(f"dataset.size must be at least 8, got {size}: try dataset.size=16")
    try:
        from sklearn import datasets  # 43 MB of wheels that only the digits need
    except ImportError:
        raise ConfigError(
            "the digits come with scikit-learn, which is not installed: try pip install scikit-learn"
        ) from None
    raw = datasets.load_digits()
    image = torch.from_numpy(raw.images).to(torch.float32)[:, None] * (255 / 16)
    image = F.interpolate(image, size=(size, size), mode="bilinear", align_corners=False).round().to(torch.uint8)
    image, label = image.squeeze(1), torch.from_numpy(raw.target).long()
    train, test = stratified(label, TEST_FRACTION, 0, "digits test")
    return GrayImages(image[train], label[train]), GrayImages(image[test], label[test])
