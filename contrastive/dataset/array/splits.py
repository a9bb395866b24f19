"""Labels of any words as class numbers, and a fixed part of the images for the test."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from contrastive.dataset.splits import SPLIT_SEED, stratified
from contrastive.errors import ConfigError
from contrastive.seeding import generator

TEST_FRACTION, CLASS_TEST_FRACTION = 0.1, 0.2  # of images without labels, and of each class


def as_labels(
    train: npt.NDArray[Any] | None, test: npt.NDArray[Any] | None, *, n: int, n_test: int | None
) -> tuple[Tensor, Tensor | None, tuple[str, ...]]:
    """Labels as class numbers (n,) int64, those of the test images, and the sorted names of the classes.

    Args:
        train: (n,) whole numbers, -1 = unlabeled, or text; None = no labels.
        test: (n_test,), likewise; without labels they are ignored.

    Raises:
        ConfigError: labels that are no whole numbers and no text, or not one for each image.
    """
    unlabeled = torch.full((n,), -1), None if n_test is None else torch.full((n_test,), -1)
    if train is None:
        return *unlabeled, ()
    for name, part, count in (("training", train, n), ("test", test, n_test)):
        if part is not None and (part.shape != (count,) or part.dtype.kind not in "iubU"):
            raise ConfigError(
                f"the labels of {count} {name} images are {part.dtype} {part.shape}: try whole numbers or text, one "
                "for each image"
            )
    found = np.unique(train)
    known = [value for value in found.tolist() if value != -1]
    numbers = {-1: -1} | {value: i for i, value in enumerate(known)}
    if test is not None and (unknown := set(np.unique(test).tolist()) - set(known)):
        raise ConfigError(f"the test images have the label {min(unknown)} and no training image has it: try without")
    label = torch.tensor([numbers[value] for value in train.tolist()])
    test_label = unlabeled[1] if test is None else torch.tensor([numbers[value] for value in test.tolist()])
    return label, test_label, tuple(map(str, known))


def divided(label: Tensor) -> tuple[Tensor, Tensor]:
    """Rows to train on and rows to test on: a fixed fifth of each class or, without labels, a fixed tenth."""
    if (label >= 0).any():
        _, tested = stratified(label, CLASS_TEST_FRACTION, SPLIT_SEED, "test")
    else:
        order = torch.randperm(len(label), generator=generator("cpu", SPLIT_SEED, "test"))
        tested = order[: max(2, round(TEST_FRACTION * len(label)))].sort().values
    kept = torch.ones(len(label), dtype=torch.bool)
    kept[tested] = False
    return kept.nonzero().squeeze(1), tested
