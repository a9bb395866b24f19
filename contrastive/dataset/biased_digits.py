"""The embedded digits on colored backgrounds: biased data with nothing to download."""

from contrastive.dataset.biased_mnist import colored_splits
from contrastive.dataset.digits import load_digits
from contrastive.types import Data

STROKE = 128  # lowest gray value of a stroke: the 8 × 8 originals are blurred, so 1 would leave no background


def biased_digits(
    *, size: int = 12, rho: float = 0.99, colors: str = "barbano", data_seed: int = 0, hold_out: bool = False
) -> Data:
    """scikit-learn's digits colored as Biased-MNIST.

    With 1,438 training images rho = 0.99 leaves two bias-conflicting images per class, 20 in all.

    Args:
        size: side in pixels, at least 8.
        rho: as in `biased_mnist`.
        colors: as in `biased_mnist`.
        data_seed: as in `biased_mnist`.
        hold_out: as in `biased_mnist`.

    Raises:
        ConfigError: an argument out of range.
    """
    train, test = load_digits(size)
    return colored_splits(
        train, test, rho=rho, palette=colors, data_seed=data_seed, stroke=STROKE, hold_out=hold_out, size=size
    )
