"""Batches by index from a split that lives on the device or, when it is too large for that, in the host's memory.

On the device nothing is decoded and nothing copied; from the host the next batch is gathered while the last one is
worked on.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.seeding import generator
from contrastive.types import WHOLE, Batch, Shard, Split

SAMPLERS = ("uniform", "bias_balanced")
LIMIT = 10.0  # a rare image is drawn at most so many times as often as the commonest


class Loader:
    """Whole batches of a device-resident split; the last incomplete one is dropped.

    Args:
        split: on any device; a memory-mapped one is read as it is needed.
        batch_size: B, at most len(split).
        device: where batches go; None = where the split is.
        streaming: fetch the next batch, from wherever the split is, while the last one is used.
        share: which part of every batch to give; all parts together are the batch of one process.
        seed: with the epoch's number it fixes everything drawn, so any epoch can be drawn again.
        sampler: `uniform` shuffles; `bias_balanced` draws with replacement, with weights 1 / p(b|y) clipped at ten
            times the least (Hong & Yang 2021), and needs bias labels.
        noise_frac: probability that view 1 is a view of an image of another class (the released code's noise); needs
            labels.
        blur_frac: probability that view 1 is taken of a blurred image (the noise of Troeshestova & Isachenko's text);
            `blur` blurs uint8 images.

    Raises:
        ConfigError: a batch larger than the split, an argument out of range, or labels missing that it needs.
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
        blur: Callable[[Tensor], Tensor] | None = None,
        device: torch.device | None = None,
        streaming: bool = False,
        share: Shard = WHOLE,
    ) -> None:
        if not batch_size <= len(split):
            raise ConfigError(
                f"batch_size={batch_size} is more than the {len(split)} training images: "
                f"try batch_size={min(128, len(split))}"
            )
        if sampler not in SAMPLERS:
            raise ConfigError(f"sampler must be one of {', '.join(SAMPLERS)}, got {sampler}: try sampler=uniform")
        for name, value in (("noise_frac", noise_frac), ("blur_frac", blur_frac)):
            if not 0 <= value <= 1:
                raise ConfigError(f"{name} is a probability, got {value}: try {name}=0.3")
        if sampler != "uniform" and split.bias is None:
            raise ConfigError(
                "sampler=bias_balanced needs bias labels and the data has none: try dataset=biased_digits"
            )
        if noise_frac != 0 and not ((split.label >= 0).all() and split.label.unique().numel() > 1):
            raise ConfigError("noise_frac needs a label for every training image and two classes: try noise_frac=0")
        if batch_size % share.world_size != 0:
            raise ConfigError(
                f"batch_size={batch_size} cannot be shared equally by {share.world_size} processes: "
                f"try batch_size={max(1, batch_size // share.world_size) * share.world_size}"
            )
        self.split, self.batch_size, self.seed = split, batch_size, seed
        self.device, self.streaming, self.share = device or split.image.device, streaming, share
        self.noise_frac, self.blur_frac, self.blur = noise_frac, blur_frac, blur
        self.weight = None if sampler == "uniform" else balance(split)

    def __len__(self) -> int:
        """Batches in an epoch."""
        return len(self.split) // self.batch_size

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of epoch `number` (from 0), on the device."""
        batches = self._drawn(number)
        return self._ahead(batches) if self.streaming else batches

    def _ahead(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """The same batches on the device, each fetched while the one before it is used."""
        with ThreadPoolExecutor(1) as pool:

            def fetch() -> Batch | None:
                batch = next(batches, None)
                return None if batch is None else batch.to(self.device)

            coming = pool.submit(fetch)
            while (batch := coming.result()) is not None:
                coming = pool.submit(fetch)
                yield batch

    def _drawn(self, number: int) -> Iterator[Batch]:
        """The batches of an epoch where the split is."""
        rng = generator("cpu", self.seed, "order", number)
        if self.weight is None:
            order = torch.randperm(len(self.split), generator=rng)
        else:
            order = torch.multinomial(self.weight, len(self.split), replacement=True, generator=rng)
        order = order.to(self.split.image.device, non_blocking=True)
        noise = generator("cpu", self.seed, "noise", number)  # the same wherever the split is
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            chosen = self.split[order[start : start + self.batch_size][self.share.of(self.batch_size)]]
            yield Batch(chosen.image, chosen.label, chosen.bias, self._mate(chosen, noise))

    def _mate(self, chosen: Split, rng: torch.Generator) -> Tensor | None:
        """What view 1 is taken of where it is not the image itself; None = always the image."""
        if self.noise_frac == 0 and self.blur_frac == 0:
            return None
        image, device = chosen.image, chosen.image.device
        n, own = self.batch_size, self.share.of(self.batch_size)  # drawn for the whole batch, whoever asks
        if self.noise_frac > 0:
            hit = (torch.rand(n, generator=rng) < self.noise_frac)[own].to(device)
            draws = torch.randint(len(self.split), (n, 64), generator=rng)[own].to(device)
            other = self.split.label[draws] != chosen.label[:, None]
            pick = draws.gather(1, other.to(torch.uint8).argmax(1, keepdim=True)).squeeze(1)
            hit = hit & other.any(1)
            image = torch.where(hit[:, None, None, None], self.split.image[pick], image)
        if self.blur_frac > 0 and self.blur is not None:
            hit = (torch.rand(n, generator=rng) < self.blur_frac)[own].to(device)
            image = torch.where(hit[:, None, None, None], self.blur(image), image)
        return image


def balance(split: Split) -> Tensor:
    """(N,) sampling weights 1 / p(b|y), none above ten times the least."""
    assert split.bias is not None
    label, bias = split.label.cpu(), split.bias.cpu()
    count = torch.zeros(int(label.max()) + 1, int(bias.max()) + 1, dtype=torch.float64)
    count.index_put_((label, bias), torch.ones((), dtype=torch.float64), accumulate=True)
    weight = count.sum(1)[label] / count[label, bias]
    return weight.clamp(max=LIMIT * weight.min())
