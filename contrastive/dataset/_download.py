"""Datasets that torchvision can download, and the error message when a download fails."""

from pathlib import Path
from typing import Any
from urllib.error import URLError

from contrastive.errors import ConfigError


def fetch(dataset: Any, file: str, root: str, **selection: Any) -> Any:
    """`dataset(root, download=True, **selection)` of a torchvision class.

    Args:
        file: to put into root by hand when the download fails.
        selection: the constructor's arguments that select a split.

    Raises:
        ConfigError: the data is missing and cannot be downloaded.
    """
    try:
        return dataset(root, download=True, **selection)
    except (URLError, OSError, RuntimeError) as error:
        reason = getattr(error, "reason", error)
        raise ConfigError(
            f"{dataset.__name__} cannot be downloaded ({reason}): put {file} into {Path(root).resolve()} and "
            "type the same again, or run without it: python train.py dataset=digits"
        ) from error
