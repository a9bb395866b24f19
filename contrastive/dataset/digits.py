"""The embedded default: scikit-learn's bundled digits, so that the program always has something real to run on."""

from contrastive.dataset._sklearn import load_digits
from contrastive.dataset._splits import channel_stats, name_splits, stratified
from contrastive.types import Data, Split

TEST_SHARE = 0.2


def digits(*, size: int, hold_out: bool) -> Data:
    """1,797 handwritten digits in 10 classes, no download.

    A fixed stratified fifth is the test split. The 8 × 8 images are resized bilinearly to size × size and repeated over
    three channels; hold_out leaves the validation tenth out of `pretrain`.

    Raises:
        ConfigError: size below 8, or scikit-learn is not installed.
    """
    image, label = load_digits(size)
    everything = Split(image[:, None].repeat(1, 3, 1, 1), label)
    train, test = stratified(label, TEST_SHARE, 0, "digits test")
    return name_splits(
        everything[train],
        everything[test],
        classes=tuple("0123456789"),
        hold_out=hold_out,
        stats=channel_stats(everything.image[train]),
    )
