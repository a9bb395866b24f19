"""The embedded default, scikit-learn's digits: real data without a download. And what gray and resized images share."""

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.dataset.splits import channel_stats, long_tail, name_splits, stratified
from contrastive.errors import check_at_least
from contrastive.types import Data, Split

TEST_FRACTION = 0.2
CHUNK = 1000  # images resized at once


def gray_to_rgb(gray: Split) -> Split:
    """Gray images (N, H, W) with their values repeated over three channels."""
    return Split(gray.image[:, None].repeat(1, 3, 1, 1), gray.label)


def load_digits(size: int) -> tuple[Split, Split]:
    """1,797 handwritten digits (UCI, Alpaydin & Kaynak 1998), (N, size, size) uint8: training and test split.

    The 8 × 8 gray values 0..16 are scaled to 0..255 and resized bilinearly. A fixed stratified fifth is the test split.

    Raises:
        ConfigError: size below 8.
    """
    check_at_least("dataset.size", size, 8, example=16)
    from sklearn import datasets  # late: it takes a second

    raw = datasets.load_digits()
    image = torch.from_numpy(raw.images).to(torch.float32)[:, None] * (255 / 16)
    image = F.interpolate(image, size=(size, size), mode="bilinear", align_corners=False).round().to(torch.uint8)
    image, label = image.squeeze(1), torch.from_numpy(raw.target).long()
    train, test = stratified(label, TEST_FRACTION, 0, "digits test")
    return Split(image[train], label[train]), Split(image[test], label[test])


def resize(image: Tensor, size: int) -> Tensor:
    """uint8 (N, 3, H, H) → uint8 (N, 3, size, size), bilinear with antialiasing; the image itself if H = size."""
    if size == image.shape[-1]:
        return image
    parts = [
        F.interpolate(part.float(), size=(size, size), mode="bilinear", antialias=True).round().to(torch.uint8)
        for part in torch.split(image, CHUNK)
    ]
    return torch.cat(parts)


def digits(*, size: int = 16, imbalance: float | None = None, hold_out: bool = False) -> Data:
    """1,797 handwritten digits in 10 classes, no download; a fixed stratified fifth is the test split.

    Args:
        size: side in pixels, at least 8; the 8 × 8 originals are resized bilinearly.
        imbalance: make the training images a long tail, the first class with so many times the images of the last (see
            `long_tail`), at least 1; None = as they are.
        hold_out: leave the validation tenth out of `pretrain`.

    Shapes: images (N, 3, size, size), gray repeated over three channels.

    Raises:
        ConfigError: size below 8, or an imbalance out of range.
    """
    train, test = map(gray_to_rgb, load_digits(size))
    train = long_tail(train, imbalance)
    return name_splits(train, test, classes=tuple("0123456789"), hold_out=hold_out, stats=channel_stats(train.image))
