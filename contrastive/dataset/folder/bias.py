"""Bias labels of an image folder, read from the paths of its images."""

import re

import torch
from torch import Tensor

from contrastive.dataset.folder.cache import ImageFile
from contrastive.errors import ConfigError


def bias_labels(
    train: list[ImageFile], test: list[ImageFile], pattern: str | None
) -> tuple[tuple[str, ...], Tensor | None, Tensor | None]:
    """Names of the biases, sorted, and the bias label of each file; no names and None without a pattern.

    Args:
        pattern: regular expression whose first group, searched in each path, names the bias.

    Raises:
        ConfigError: the pattern is not a regular expression, or finds no group in a path.
    """
    if pattern is None:
        return (), None, None
    train_names, test_names = _bias_names(train, pattern), _bias_names(test, pattern)
    biases = tuple(sorted({*train_names, *test_names}))
    index = {name: i for i, name in enumerate(biases)}
    train_bias, test_bias = (torch.tensor([index[name] for name in names]) for names in (train_names, test_names))
    return biases, train_bias, test_bias


def _bias_names(files: list[ImageFile], pattern: str) -> list[str]:
    """The first group of the pattern in each path."""
    try:
        matcher = re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"dataset.bias_pattern={pattern} is not a regular expression ({error}): "
            "try 'dataset.bias_pattern=_([0-9]+)[.]png$'"
        ) from None
    names = []
    for file in files:
        match = matcher.search(file.path)
        name = match[1] if match and matcher.groups else None
        if name is None:
            raise ConfigError(
                f"dataset.bias_pattern={pattern} finds no group in {file.path}: "
                "try 'dataset.bias_pattern=_([0-9]+)[.]png$'"
            )
        names.append(name)
    return names
