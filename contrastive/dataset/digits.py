"""The embedded default: scikit-learn's bundled digits, so that the program always has real data to run on."""

from contrastive.dataset._sklearn import load_digits
from contrastive.dataset._splits import channel_stats, name_splits
from contrastive.types import Data


def digits(*, size: int = 16, hold_out: bool = False) -> Data:
    """1,797 handwritten digits in 10 classes, no download; a fixed stratified fifth is the test split.

    Args:
        size: side in pixels, at least 8; the 8 × 8 originals are resized bilinearly.
        hold_out: leave the validation tenth out of `pretrain`.

    Shapes: images (N, 3, size, size), gray repeated over three channels.

    Raises:
        ConfigError: size below 8, or scikit-learn is not installed.
    """
    train, test = (gray.as_rgb() for gray in load_digits(size))
    return name_splits(train, test, classes=tuple("0123456789"), hold_out=hold_out, stats=channel_stats(train.image))
