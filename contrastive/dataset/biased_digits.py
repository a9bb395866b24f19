"""The embedded digits on colored backgrounds: biased data with nothing to download."""

from contrastive.dataset._coloring import Bias, colored
from contrastive.dataset._sklearn import load_digits
from contrastive.dataset._splits import stratified
from contrastive.types import Data

TEST_SHARE = 0.2
STROKE = 128  # at least this gray is the digit: the 8 × 8 originals are blurred, so 0 alone would leave no background


def biased_digits(*, size: int, rho: float, colors: str, data_seed: int, hold_out: bool) -> Data:
    """scikit-learn's digits colored as Biased-MNIST; arguments and splits as there, the images as in `digits`.

    With 1,438 training images rho = 0.99 leaves one or two conflicting images per class.

    Raises:
        ConfigError: an argument out of range, or scikit-learn is not installed.
    """
    bias = Bias(rho, colors, data_seed)
    image, label = load_digits(size)
    train, test = stratified(label, TEST_SHARE, 0, "digits test")
    digit = image >= STROKE
    return colored(digit[train], label[train], digit[test], label[test], bias, hold_out=hold_out)
