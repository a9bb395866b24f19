"""Biased-MNIST."""

from torchvision.datasets import MNIST

from contrastive.dataset._coloring import Bias, colored
from contrastive.dataset._download import fetch
from contrastive.types import Data

FILES = "MNIST/raw with its four files (train-images-idx3-ubyte and so on)"


def biased_mnist(*, root: str, rho: float, colors: str, data_seed: int, hold_out: bool) -> Data:
    """MNIST on colored backgrounds (Bahng et al. 2020, §4.2), 28 × 28 pixels; bias labels are the ten colors.

    A pixel that is not 0 is white, a pixel that is 0 has the background's color.

    Args:
        root: where MNIST lies, or is downloaded to.
        rho: share of each class on its own color in training (0.999, 0.997, 0.995, 0.99 in the papers); the test set
            has 0.1 and the validation digits are recolored at 0.1.
        colors: `authors` (Barbano et al. 2023) or `rebias` (gray as the tenth color).
        data_seed: with rho it alone fixes the map from images to colors.
        hold_out: leave the validation tenth out of `pretrain`.

    Raises:
        ConfigError: an argument out of range, or MNIST is not there and cannot be downloaded.
    """
    bias = Bias(rho, colors, data_seed)
    train, test = (fetch(MNIST, FILES, root, train=train) for train in (True, False))
    return colored(train.data != 0, train.targets, test.data != 0, test.targets, bias, hold_out=hold_out)
