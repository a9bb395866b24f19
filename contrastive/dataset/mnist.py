"""MNIST."""

from contrastive.dataset._mnist import load_mnist
from contrastive.dataset._splits import name_splits
from contrastive.types import Data

MEAN, STD = (0.1307, 0.1307, 0.1307), (0.3081, 0.3081, 0.3081)


def mnist(*, root: str = "data", hold_out: bool = False) -> Data:
    """60,000 training and 10,000 test digits of 28 × 28 pixels, gray repeated over three channels (LeCun et al. 1998).

    Args:
        root: folder that holds the data; downloaded into it when missing.
        hold_out: leave the validation tenth out of `pretrain`.

    Raises:
        ConfigError: the data is missing and cannot be downloaded.
    """
    train, test = (gray.as_rgb() for gray in load_mnist(root))
    return name_splits(train, test, classes=tuple("0123456789"), hold_out=hold_out, stats=(MEAN, STD))
