"""Load MNIST through torchvision."""

from torchvision.datasets import MNIST

from contrastive.dataset._download import fetch
from contrastive.dataset._gray import GrayImages

FILES = "MNIST/raw with its four files (train-images-idx3-ubyte and so on)"


def load_mnist(root: str) -> tuple[GrayImages, GrayImages]:
    """60,000 training and 10,000 test digits of 28 × 28 pixels; downloaded to `root` unless present.

    Raises:
        ConfigError: the data is missing and cannot be downloaded.
    """
    train, test = (fetch(MNIST, FILES, root, train=train) for train in (True, False))
    return GrayImages(train.data, train.targets), GrayImages(test.data, test.targets)
