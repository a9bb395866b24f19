"""Datasets that torchvision can download, and the error message when a download fails.

torchvision compares the md5 of every CIFAR and STL-10 file, and of every archive, before it reads it; the pickles of
CIFAR are therefore opened only if they are the published ones. Of MNIST it checks the archives alone; `mnist.py` does
the rest.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError

from contrastive.errors import ConfigError
from contrastive.files import locked

FAILURES = (URLError, OSError, RuntimeError, ValueError, EOFError, AssertionError)


def fetch(dataset: Any, file: str, root: str, *, folder: str, **selection: Any) -> Any:
    """`dataset(root, **selection)` of a torchvision class, downloaded by one process at a time if it is not there.

    Args:
        file: to put into root by hand when the download fails.
        folder: below root, where the unpacked files lie.
        selection: the constructor's arguments that select a split.

    Raises:
        ConfigError: the data is missing or damaged, and cannot be downloaded.
    """
    with suppress(*FAILURES):  # not there, or not whole
        return dataset(root, **selection)
    try:
        with locked(Path(root, f".{dataset.__name__}.lock")):  # torchvision has none
            return dataset(root, download=True, **selection)
    except FAILURES as error:
        place = Path(root).resolve()
        raise ConfigError(
            f"{dataset.__name__} in {place / folder} is missing or damaged, and cannot be downloaded "
            f"({getattr(error, 'reason', error)}): remove that folder if it is there, put {file} into {place} and run "
            "the same command again, or run without it: python train.py dataset=digits"
        ) from error
