"""Biased-MNIST."""

from torchvision.datasets import MNIST

from contrastive.colour import Bias, coloured
from contrastive.download import fetch
from contrastive.types import Data

FILES = "MNIST/raw with its four files (train-images-idx3-ubyte and so on)"


def biased_mnist(*, root: str, rho: float, colours: str, data_seed: int, hold_out: bool) -> Data:
    """MNIST on coloured backgrounds (Bahng et al. 2020, §4.2), 28 × 28 pixels; bias labels are the ten colours.

    A pixel that is not 0 is white, a pixel that is 0 has the background's colour.

    Args:
        root: where MNIST lies, or is downloaded to.
        rho: share of each class on its own colour in training (0.999, 0.997, 0.995, 0.99 in the papers); the test set
            has 0.1 and the validation digits are recoloured at 0.1.
        colours: `authors` (Barbano et al. 2023) or `rebias` (grey as the tenth colour).
        data_seed: with rho it alone fixes the map from images to colours.
        hold_out: leave the validation tenth out of `pretrain`.

    Raises:
        Refusal: an argument out of range, or MNIST is not there and cannot be downloaded.
    """
    bias = Bias(rho, colours, data_seed)
    train, test = (fetch(MNIST, FILES, root, train=train) for train in (True, False))
    return coloured(train.data != 0, train.targets, test.data != 0, test.targets, bias, hold_out=hold_out)
