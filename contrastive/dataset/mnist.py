"""MNIST through torchvision."""

from torchvision.datasets import MNIST

from contrastive.dataset._download import fetch
from contrastive.dataset._splits import name_splits
from contrastive.types import Data, Split

MEAN, STD = (0.1307,) * 3, (0.3081,) * 3
FILES = "MNIST/raw with its four files (train-images-idx3-ubyte and so on)"


def mnist(*, root: str, hold_out: bool) -> Data:
    """60,000 training and 10,000 test digits of 28 × 28 pixels, gray repeated over three channels (LeCun et al. 1998).

    Downloaded to `root` unless it is there; hold_out leaves the validation tenth out of `pretrain`.

    Raises:
        ConfigError: it is not there and cannot be downloaded.
    """
    parts = [fetch(MNIST, FILES, root, train=train) for train in (True, False)]
    train, test = (Split(part.data[:, None].repeat(1, 3, 1, 1), part.targets) for part in parts)
    return name_splits(train, test, classes=tuple("0123456789"), hold_out=hold_out, stats=(MEAN, STD))
