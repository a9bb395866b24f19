"""From a training and a test split to named splits: what every dataset file ends with."""

import hashlib

import torch
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.seeding import generator
from contrastive.types import Data, Split

HOLD_OUT = 0.1
SPLIT_SEED = 0  # the same validation images in every run, whatever its seed


def stratified(label: Tensor, share: float, *key: object) -> tuple[Tensor, Tensor]:
    """Indices (rest, held out) of the labeled entries, stratified by class; fixed by the key. Sorted, int64."""
    rng = generator("cpu", *key)
    held = []
    for c in label[label >= 0].unique().tolist():
        members = (label == c).nonzero().squeeze(1)
        held.append(members[torch.randperm(len(members), generator=rng)[: max(1, round(share * len(members)))]])
    chosen = torch.zeros(len(label), dtype=torch.bool)
    chosen[torch.cat(held)] = True
    return ((label >= 0) & ~chosen).nonzero().squeeze(1), chosen.nonzero().squeeze(1)


def channel_stats(image: Tensor) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Mean and standard deviation per channel of uint8 (N, 3, H, W), scaled to [0, 1], from exact histograms."""
    level = torch.arange(256, dtype=torch.float64) / 255
    mean, std = [], []
    for channel in range(3):
        count = torch.zeros(256, dtype=torch.int64)
        for some in image.split(10_000):  # the images may be more than memory holds
            count += torch.bincount(some[:, channel].flatten(), minlength=256)
        share = count / count.sum(dtype=torch.float64)
        mu = (share * level).sum()
        mean.append(mu.item())
        std.append((share * (level - mu) ** 2).sum().sqrt().item())
    return (mean[0], mean[1], mean[2]), (std[0], std[1], std[2])


def name_splits(
    train: Split,
    test: Split,
    *,
    classes: tuple[str, ...],
    hold_out: bool,
    stats: tuple[tuple[float, float, float], tuple[float, float, float]],
    biases: tuple[str, ...] = (),
    shown: Split | None = None,
    facts: dict[str, str] | None = None,
) -> Data:
    """Data whose probe_val is a fixed stratified tenth of the labeled training images.

    Args:
        hold_out: leave that tenth out of `pretrain`.
        shown: the training images as validation is to see them (recolored); None = as they are.

    Raises:
        ConfigError: a class has fewer than two labeled training images, or one split is empty.
    """
    if not len(test) > 0:
        raise ConfigError("the test split is empty: add images under test/")
    count = torch.bincount(train.label[train.label >= 0], minlength=len(classes))
    if (count < 2).any():
        poor = classes[int((count < 2).nonzero()[0])]
        raise ConfigError(
            f"class {poor} has fewer than two labeled training images, too few to hold one out for "
            "validation: add images to it or remove the class"
        )
    rest, held = stratified(train.label, HOLD_OUT, SPLIT_SEED, "probe_val")
    val = (shown or train)[held]
    if hold_out:
        kept = torch.ones(len(train), dtype=torch.bool)
        kept[held] = False
        train, rest = train[kept], torch.cumsum(kept, 0)[rest] - 1
    return Data(train, rest, val, test, classes, *stats, biases, facts or {})


def fingerprint(data: Data) -> str:
    """sha256 over the images, labels and biases of the training and test split."""
    digest = hashlib.sha256()
    for split in (data.pretrain, data.test):
        for value in (split.image, split.label, split.bias):
            if value is not None:
                digest.update(repr((tuple(value.shape), value.dtype)).encode())
                digest.update(value.contiguous().numpy().data)
    return digest.hexdigest()
