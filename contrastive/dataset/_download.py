"""Datasets that torchvision knows how to download, and what to say when it cannot."""

from pathlib import Path
from typing import Any
from urllib.error import URLError

from contrastive.errors import ConfigError


def fetch(dataset: Any, file: str, root: str, **choice: Any) -> Any:
    """`dataset(root, download=True, **choice)` of a torchvision class.

    Args:
        file: what to put under root by hand.

    Raises:
        ConfigError: the data is not there and cannot be downloaded.
    """
    try:
        return dataset(root, download=True, **choice)
    except (URLError, OSError, RuntimeError) as error:
        reason = getattr(error, "reason", error)
        raise ConfigError(
            f"{dataset.__name__} cannot be downloaded ({reason}): put {file} into {Path(root).resolve()} and "
            "type the same again, or run without it: python train.py dataset=digits"
        ) from error
