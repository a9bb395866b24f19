"""Batches from a split that lives on the device: shuffled by index, nothing decoded, nothing copied."""

from collections.abc import Iterator

import torch

from contrastive.refusal import require
from contrastive.seeding import generator
from contrastive.types import Split


class Loader:
    """Whole batches of a device-resident split, reshuffled every epoch; the last incomplete batch is dropped.

    Args:
        split: on the device it is to be used on.
        batch_size: B, at most len(split).
        seed: with the epoch's number it fixes the order, so any epoch can be drawn again.

    Raises:
        Refusal: a batch larger than the split, or of fewer than two images.
    """

    def __init__(self, split: Split, *, batch_size: int, seed: int) -> None:
        require(batch_size <= len(split), f"batch_size={batch_size} is more than the {len(split)} training images: "
                                          f"try batch_size={min(128, len(split))}")
        self.split, self.batch_size, self.seed = split, batch_size, seed

    def __len__(self) -> int:
        """Batches in an epoch."""
        return len(self.split) // self.batch_size

    def epoch(self, number: int) -> Iterator[Split]:
        """The batches of epoch `number` (from 0)."""
        order = torch.randperm(len(self.split), generator=generator("cpu", self.seed, "order", number))
        order = order.to(self.split.image.device, non_blocking=True)
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            yield self.split[order[start:start + self.batch_size]]
