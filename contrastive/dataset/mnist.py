"""MNIST, its files checked against published checksums."""

from pathlib import Path

from torchvision.datasets import MNIST

from contrastive.dataset.digits import gray_to_rgb
from contrastive.dataset.download import fetch
from contrastive.dataset.splits import name_splits
from contrastive.errors import ConfigError
from contrastive.files import file_hash
from contrastive.types import Data, Split

MEAN, STD = (0.1307, 0.1307, 0.1307), (0.3081, 0.3081, 0.3081)
FOLDER = "MNIST/raw"
FILES = f"{FOLDER} with its four files (train-images-idx3-ubyte and so on)"
SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


def load_mnist(root: str) -> tuple[Split, Split]:
    """60,000 training and 10,000 test digits, (N, 28, 28) uint8; downloaded to `root` unless present.

    Raises:
        ConfigError: the data is damaged, or missing and cannot be downloaded.
    """
    legacy = Path(root, "MNIST/processed/training.pt").resolve()  # torchvision would read it in place of the files
    if legacy.exists():
        raise ConfigError(f"{legacy} has no published checksum: remove {legacy.parent}")
    train, test = (fetch(MNIST, FILES, root, folder=FOLDER, train=train) for train in (True, False))
    for name, expected in SHA256.items():
        if file_hash(path := Path(root, FOLDER, name).resolve()) != expected:
            raise ConfigError(f"{path} is damaged, its checksum is wrong: remove it and put the published one there")
    return Split(train.data, train.targets), Split(test.data, test.targets)


def mnist(*, root: str = "data", hold_out: bool = False) -> Data:
    """60,000 training and 10,000 test digits of 28 × 28 pixels, gray repeated over three channels (LeCun et al. 1998).

    Args:
        root: folder that holds the data; downloaded into it when missing.
        hold_out: leave the validation tenth out of `pretrain`.

    Raises:
        ConfigError: the data is missing and cannot be downloaded.
    """
    train, test = map(gray_to_rgb, load_mnist(root))
    return name_splits(train, test, classes=tuple("0123456789"), hold_out=hold_out, stats=(MEAN, STD))
