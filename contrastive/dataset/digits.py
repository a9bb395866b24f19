"""The embedded default: scikit-learn's bundled digits, so that the program always has something real to run on."""

import torch
import torch.nn.functional as F

from contrastive.refusal import require
from contrastive.split import channel_stats, hold_out, name_splits
from contrastive.types import Data, Split

TEST_SHARE = 0.2


def digits(*, size: int) -> Data:
    """1,797 handwritten digits of 8 × 8 pixels (UCI, Alpaydin & Kaynak 1998), 10 classes, no download.

    A fixed stratified fifth is the test split. Grey values 0..16 are scaled to 0..255, resized bilinearly to
    size × size and repeated over three channels.

    Raises:
        Refusal: size below 8, or scikit-learn is not installed.
    """
    require(size >= 8, f"dataset.size must be at least 8, got {size}: try dataset.size=16")
    try:
        from sklearn.datasets import load_digits  # 43 MB of wheels that only this dataset needs
    except ImportError:
        require(False, "dataset=digits comes with scikit-learn, which is not installed: try pip install scikit-learn")
    raw = load_digits()
    image = torch.from_numpy(raw.images).to(torch.float32)[:, None] * (255 / 16)
    image = F.interpolate(image, size=(size, size), mode="bilinear", align_corners=False).round().to(torch.uint8)
    everything = Split(image.repeat(1, 3, 1, 1), torch.from_numpy(raw.target).long())
    train, test = hold_out(everything.label, TEST_SHARE, 0, "digits test")
    train_split = everything[train]
    return name_splits(train_split, everything[test], classes=tuple("0123456789"),
                       stats=channel_stats(train_split.image))
