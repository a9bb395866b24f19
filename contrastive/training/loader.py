"""Batches by index from a split that lives on the device or, when too large for it, in the host's memory.

On the device nothing is decoded and nothing copied; from the host or from stored bytes batches are made while
earlier ones train.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import count
from typing import TypeVar

import torch
from torch import Tensor

from contrastive.augmentation.blur import blur_uint8
from contrastive.dataset.shard.order import Order
from contrastive.errors import ConfigError
from contrastive.seeding import generator
from contrastive.types import Batch, Shard, Split, count_pairs, move, tensors

T = TypeVar("T")
DEPTH = 3  # batches that are fetched ahead
# The one stream of the process that copies to a device; the allocator keeps memory for each stream.
copy_stream = cache(torch.cuda.Stream)


class Loader:
    """Whole batches of a split; the last incomplete one is dropped.

    Args:
        split: on any device; a memory-mapped one is read as it is needed.
        batch_size: B, of all processes together, at most len(split).
        seed: with the epoch's number it fixes every draw, so that any epoch can be drawn again.
        sampler: `uniform` shuffles; the others draw with replacement, see `WEIGHTS`.
        noise_frac: see `ViewNoise`.
        blur_frac: see `ViewNoise`.
        second_batch_size: images of a second batch, `Batch.second`: drawn without replacement, whatever the sampler,
            and without noise; 0 = none. With it an epoch is one pass of the second batches over the data, and the main
            batches are drawn again when they run out before (Hong & Yang 2021).
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
        second_batch_size: int = 0,
        device: torch.device | None = None,
        streaming: bool = False,
        shard: Shard | None = None,
    ) -> None:
        self.split, self.batch_size, self.second_batch_size, self.seed = split, batch_size, second_batch_size, seed
        self.device, self.streaming, self.shard = device or split.image.device, streaming, shard or Shard()
        self._check_size("batch_size", batch_size)
        self._check_size("regularizer.batch_size", second_batch_size)
        self.weights = WEIGHTS[sampler](split) if sampler in WEIGHTS else None
        self.noise = ViewNoise(split, noise_frac=noise_frac, blur_frac=blur_frac)

    def __len__(self) -> int:
        """Batches in an epoch."""
        return len(self.split) // (self.second_batch_size or self.batch_size)

    def views_per_step(self, n_views: int) -> int:
        """Images that go through the network in a step, of all processes together; each main image has n_views."""
        return self.batch_size * n_views + self.second_batch_size

    def epoch(self, number: int, *, start: int = 0) -> Iterator[Batch]:
        """The batches of epoch `number` from batch `start` on (both from 0), on the device."""
        batches = self._batches(number, start)
        return uploaded(batches, self.device) if self.streaming else batches

    def indices(self, number: int, batch: int) -> Tensor:
        """(B,) int64, the images of one main batch of an epoch, of all processes together."""
        return next(self._main_indices(number, batch))

    def _batches(self, number: int, start: int) -> Iterator[Batch]:
        """The batches of an epoch, on the split's device."""
        rng = generator("cpu", self.seed, "noise", number)  # on the CPU: the same noise on every device
        if not self.split.keyed:
            for _ in range(start):
                self.noise.draw(self.batch_size, rng)
        rows = self.shard.of(self.batch_size)
        pairs = zip(self._second_indices(number, start), self._main_indices(number, start), strict=False)
        for i, (second, index) in enumerate(pairs, start):
            if self.split.keyed:  # keyed by the batch: an epoch may begin anywhere
                rng = generator("cpu", self.seed, "noise", number, i)
            index = index[rows]
            batch, extent = self.split.for_views(index)
            source = self.noise(batch, self.batch_size, self.shard, rng)
            yield Batch(batch.image, batch.label, batch.bias, source, self._plain(second), index, extent)

    def _main_indices(self, number: int, start: int) -> Iterator[Tensor]:
        """Images of the main batches from batch `start` on, without end: drawn again when an order is used up."""
        rng, per_pass = generator("cpu", self.seed, "order", number), len(self.split) // self.batch_size
        for k in count():
            order: Tensor | Order
            if self.weights is not None:
                order = torch.multinomial(self.weights, len(self.split), replacement=True, generator=rng)
            elif self.split.keyed:
                order = Order(len(self.split), self.seed, "order", number, k)
            else:
                order = torch.randperm(len(self.split), generator=rng)
            yield from self._in_order(order, self.batch_size, range(max(0, start - k * per_pass), per_pass))

    def _second_indices(self, number: int, start: int) -> Iterator[Tensor | None]:
        """Images of the second batches of an epoch, one entry for each step; None where there is no second batch."""
        if not self.second_batch_size:
            yield from [None] * (len(self) - start)
            return
        key: tuple[object, ...] = (self.seed, "uniform", number)
        order: Tensor | Order = Order(len(self.split), *key)
        if not self.split.keyed:
            order = torch.randperm(len(self.split), generator=generator("cpu", *key))
        yield from self._in_order(order, self.second_batch_size, range(start, len(self)))

    def _in_order(self, order: "Tensor | Order", size: int, batches: range) -> Iterator[Tensor]:
        """The rows of these batches of an order of all rows, which may be a function of its key and no list."""
        if isinstance(order, Tensor):
            order = move(order, self.split.image.device)
        for i in batches:
            rows = slice(i * size, (i + 1) * size)
            part = order[rows] if isinstance(order, Tensor) else order.rows(rows.start, rows.stop)
            yield move(part, self.split.image.device)

    def _plain(self, index: Tensor | None) -> Batch | None:
        """This process's part of a second batch."""
        if index is None:
            return None
        index = index[self.shard.of(self.second_batch_size)]
        part = self.split[index]
        return Batch(part.image, part.label, part.bias, index=index)

    def _check_size(self, key: str, size: int) -> None:
        n, world_size = len(self.split), self.shard.world_size
        if size > n:
            raise ConfigError(f"{key}={size} is more than the {n} training images: try {key}={min(128, n)}")
        if size % world_size != 0:
            raise ConfigError(
                f"{key}={size} cannot be shared equally by {world_size} processes: "
                f"try {key}={max(1, size // world_size) * world_size}"
            )


def prefetched(items: Iterator[T]) -> Iterator[T]:
    """The same items, of which a thread makes up to `DEPTH` ahead."""
    end, pool = object(), ThreadPoolExecutor(1)
    try:
        upcoming = deque(pool.submit(next, items, end) for _ in range(DEPTH))
        while (item := upcoming.popleft().result()) is not end:
            upcoming.append(pool.submit(next, items, end))
            yield item  # type: ignore[misc]
    finally:
        pool.shutdown(cancel_futures=True)


def uploaded(batches: Iterator[Batch], device: torch.device) -> Iterator[Batch]:
    """Batches of the host's memory on the device, made and copied ahead by a thread.

    A GPU copies them on a stream of its own, so that no copy waits for the kernels of steps that are queued already.
    The stream that is current when a batch is taken waits for the copy, on the device; the host never does. What the
    consumer starts on further streams has to wait for that one, as the capture of a graph does.

    A batch is allocated on the copying stream and read on another, so the allocator is told by `record_stream`: it
    reuses the memory only after the work that was queued there when the batch was freed, whoever kept a part of it.
    (An event after each step would be cheaper, but misses what a caller keeps.) Pinned memory is tied to the stream of
    its copy by torch's host allocator. While a graph is captured in mode `thread_local`, the thread may go on: the
    copying stream takes no part in the capture, and torch asks for no event of a freed batch before it has ended.
    """
    if device.type != "cuda":
        yield from prefetched(batch.to(device) for batch in batches)
        return
    stream = copy_stream(device)

    def copied() -> Iterator[tuple[Batch, torch.cuda.Event]]:
        for batch in batches:
            with torch.cuda.stream(stream):  # of this thread alone, and with it the device where memory is pinned
                copy = batch.to(device)
            yield copy, stream.record_event()

    for batch, done in prefetched(copied()):
        consumer = torch.cuda.current_stream(device)
        consumer.wait_event(done)
        for value in tensors(batch):
            value.record_stream(consumer)
        yield batch


MAX_RATIO = 10.0  # a rare image is drawn at most so many times as often as the most common


def class_balanced_weights(split: Split) -> Tensor:
    """(N,) weights 1 / p(y): every class is drawn as often; needs labels."""
    label = split.label.cpu()
    if (label < 0).any():
        raise ConfigError("sampler=class_balanced needs a label for every training image: try sampler=uniform")
    return 1 / torch.bincount(label).double()[label]


def group_balanced_weights(split: Split) -> Tensor:
    """(N,) weights 1 / p(y, b): every group is drawn as often (Sagawa et al. 2020); needs bias labels."""
    _, in_group = class_and_group_sizes(split, "group_balanced")
    return 1 / in_group


def bias_balanced_weights(split: Split) -> Tensor:
    """(N,) weights 1 / p(b|y), none above ten times the smallest (Hong & Yang 2021); needs bias labels."""
    in_class, in_group = class_and_group_sizes(split, "bias_balanced")
    weight = in_class / in_group
    return weight.clamp(max=MAX_RATIO * weight.min())


def class_and_group_sizes(split: Split, sampler: str) -> tuple[Tensor, Tensor]:
    """(N,) images of the same class, and of the same class and bias."""
    if split.bias is None or not ((split.bias >= 0) & (split.label >= 0)).all():
        raise ConfigError(
            f"sampler={sampler} needs labels and bias labels of every training image, the data lacks them: "
            "try dataset=biased_digits, or bias_from=RUN to infer them from an earlier run"
        )
    label, bias = split.label.cpu(), split.bias.cpu()
    count = count_pairs(label, bias, int(label.max()) + 1, int(bias.max()) + 1).double()
    return count.sum(1)[label], count[label, bias]


WEIGHTS = {
    "class_balanced": class_balanced_weights,
    "bias_balanced": bias_balanced_weights,
    "group_balanced": group_balanced_weights,
}


TRIES = 64  # draws until an image of another class comes up


class ViewNoise:
    """`noise(batch, n, shard, generator)` → (B, 3, H, W) uint8, the images that view 1 is taken from.

    Args:
        noise_frac: probability that view 1 shows an image of another class (the released code's noise); needs labels.
        blur_frac: probability that view 1 is taken from a blurred image (the noise of the paper's text).
    """

    def __init__(self, split: Split, *, noise_frac: float, blur_frac: float) -> None:
        if noise_frac > 0 and not ((split.label >= 0).all() and split.label.unique().numel() > 1):
            raise ConfigError("noise_frac needs a label for every training image and two classes: try noise_frac=0")
        self.split, self.noise_frac, self.blur_frac = split, noise_frac, blur_frac

    def __call__(self, batch: Split, n: int, shard: Shard, generator: torch.Generator) -> Tensor | None:
        """Source images of view 1 for this process's part of a batch of n images, drawn for the whole batch; None
        without noise."""
        image, device, rows = batch.image, batch.image.device, shard.of(n)
        noise, draws, blur = self.draw(n, generator)
        if noise is None and blur is None:
            return None
        if noise is not None and draws is not None:
            hit, draws = move(noise[rows], device), move(draws[rows], device)
            other_class = self.split.label[draws] != batch.label[:, None]
            pick = draws.gather(1, other_class.to(torch.uint8).argmax(1, keepdim=True)).squeeze(1)
            hit = hit & other_class.any(1)
            image = torch.where(hit[:, None, None, None], self.split.image[pick], image)
        if blur is not None:
            image = torch.where(move(blur[rows], device)[:, None, None, None], blur_uint8(image), image)
        return image

    def draw(self, n: int, generator: torch.Generator) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """For n images: which show another one, (n, TRIES) candidates for it, and which are blurred."""
        noise, draws, blur = None, None, None
        if self.noise_frac > 0:
            noise = torch.rand(n, generator=generator) < self.noise_frac
            draws = torch.randint(len(self.split), (n, TRIES), generator=generator)
        if self.blur_frac > 0:
            blur = torch.rand(n, generator=generator) < self.blur_frac
        return noise, draws, blur
