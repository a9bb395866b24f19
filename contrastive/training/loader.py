"""Batches by index from a split that lives on the device or, when too large for it, in the host's memory.

On the device nothing is decoded and nothing copied; from the host the next batch is gathered while the current one
trains.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import torch

from contrastive.errors import ConfigError
from contrastive.seeding import generator
from contrastive.training.noise import ViewNoise
from contrastive.training.sampler import Sampler
from contrastive.types import Batch, Shard, Split


class Loader:
    """Whole batches of a split; the last incomplete one is dropped.

    Args:
        split: on any device; a memory-mapped one is read as it is needed.
        batch_size: B, of all processes together, at most len(split).
        seed: with the epoch's number it fixes every draw, so that any epoch can be drawn again.
        sampler, noise_frac, blur_frac: see `Sampler` and `ViewNoise`.
        device: where batches go; None = where the split is.
        streaming: fetch the next batch, from wherever the split is, while the current one trains.
        shard: the part of every batch to give; all parts together are the batch of one process.

    Raises:
        ConfigError: a batch larger than the split or not divisible by the processes, or labels that are missing.
    """

    def __init__(
        self,
        split: Split,
        *,
        batch_size: int,
        seed: int,
        sampler: str = "uniform",
        noise_frac: float = 0.0,
        blur_frac: float = 0.0,
        device: torch.device | None = None,
        streaming: bool = False,
        shard: Shard | None = None,
    ) -> None:
        if not batch_size <= len(split):
            raise ConfigError(
                f"batch_size={batch_size} is more than the {len(split)} training images: "
                f"try batch_size={min(128, len(split))}"
            )
        self.split, self.batch_size, self.seed = split, batch_size, seed
        self.device, self.streaming, self.shard = device or split.image.device, streaming, shard or Shard()
        if batch_size % self.shard.world_size != 0:
            n = self.shard.world_size
            raise ConfigError(
                f"batch_size={batch_size} cannot be shared equally by {n} processes: "
                f"try batch_size={max(1, batch_size // n) * n}"
            )
        self.sampler = Sampler(split, sampler)
        self.noise = ViewNoise(split, noise_frac=noise_frac, blur_frac=blur_frac)

    def __len__(self) -> int:
        """Batches in an epoch."""
        return len(self.split) // self.batch_size

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of epoch `number` (from 0), on the device."""
        batches = self._batches(number)
        return self._prefetched(batches) if self.streaming else batches

    def _batches(self, number: int) -> Iterator[Batch]:
        """The batches of an epoch, on the split's device."""
        order = self.sampler(generator("cpu", self.seed, "order", number))
        order = order.to(self.split.image.device, non_blocking=True)
        rng = generator("cpu", self.seed, "noise", number)  # on the CPU: the same noise on every device
        rows = self.shard.of(self.batch_size)
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            batch = self.split[order[start : start + self.batch_size][rows]]
            source = self.noise(batch, self.batch_size, self.shard, rng) if self.noise.active else None
            yield Batch(batch.image, batch.label, bias=batch.bias, view1_source=source)

    def _prefetched(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """The same batches on the device, each fetched while the one before it trains."""

        def fetch() -> Batch | None:
            batch = next(batches, None)
            return None if batch is None else batch.to(self.device)

        with ThreadPoolExecutor(1) as pool:
            upcoming = pool.submit(fetch)
            while (batch := upcoming.result()) is not None:
                upcoming = pool.submit(fetch)
                yield batch
