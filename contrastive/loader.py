"""Batches from a split that lives on the device: drawn by index, nothing decoded, nothing copied."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from contrastive.refusal import require
from contrastive.seeding import generator
from contrastive.types import Batch, Split

SAMPLERS = ("uniform", "bias_balanced")
LIMIT = 10.0  # a rare image is drawn at most so many times as often as the commonest


class Loader:
    """Whole batches of a device-resident split; the last incomplete one is dropped.

    Args:
        split: on the device it is to be used on.
        batch_size: B, at most len(split).
        seed: with the epoch's number it fixes everything drawn, so any epoch can be drawn again.
        sampler: `uniform` shuffles; `bias_balanced` draws with replacement, with weights 1 / p(b|y) clipped at ten
            times the least (Hong & Yang 2021), and needs bias labels.
        noise_frac: probability that view 1 is a view of an image of another class (the released code's noise); needs
            labels.
        blur_frac: probability that view 1 is taken of a blurred image (the noise of Troeshestova & Isachenko's text);
            `blur` blurs uint8 images.

    Raises:
        Refusal: a batch larger than the split, an argument out of range, or labels missing that it needs.
    """

    def __init__(self, split: Split, *, batch_size: int, seed: int, sampler: str = "uniform", noise_frac: float = 0.0,
                 blur_frac: float = 0.0, blur: Callable[[Tensor], Tensor] | None = None) -> None:
        require(batch_size <= len(split), f"batch_size={batch_size} is more than the {len(split)} training images: "
                                          f"try batch_size={min(128, len(split))}")
        require(sampler in SAMPLERS, f"sampler must be one of {', '.join(SAMPLERS)}, got {sampler}: "
                                     "try sampler=uniform")
        for name, value in (("noise_frac", noise_frac), ("blur_frac", blur_frac)):
            require(0 <= value <= 1, f"{name} is a probability, got {value}: try {name}=0.3")
        require(sampler == "uniform" or split.bias is not None,
                "sampler=bias_balanced needs bias labels and the data has none: try dataset=biased_digits")
        require(noise_frac == 0 or bool((split.label >= 0).all() and split.label.unique().numel() > 1),
                "noise_frac needs a label for every training image and two classes: try noise_frac=0")
        self.split, self.batch_size, self.seed = split, batch_size, seed
        self.noise_frac, self.blur_frac, self.blur = noise_frac, blur_frac, blur
        self.weight = None if sampler == "uniform" else balance(split)

    def __len__(self) -> int:
        """Batches in an epoch."""
        return len(self.split) // self.batch_size

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of epoch `number` (from 0)."""
        rng = generator("cpu", self.seed, "order", number)
        if self.weight is None:
            order = torch.randperm(len(self.split), generator=rng)
        else:
            order = torch.multinomial(self.weight, len(self.split), replacement=True, generator=rng)
        order = order.to(self.split.image.device, non_blocking=True)
        noise = generator(self.split.image.device, self.seed, "noise", number)
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            chosen = self.split[order[start:start + self.batch_size]]
            yield Batch(chosen.image, chosen.label, chosen.bias, self._mate(chosen, noise))

    def _mate(self, chosen: Split, rng: torch.Generator) -> Tensor | None:
        """What view 1 is taken of where it is not the image itself; None = always the image."""
        if self.noise_frac == 0 and self.blur_frac == 0:
            return None
        image, device = chosen.image, chosen.image.device
        if self.noise_frac > 0:
            hit = torch.rand(len(image), generator=rng, device=device) < self.noise_frac
            draws = torch.randint(len(self.split), (len(image), 64), generator=rng, device=device)
            other = self.split.label[draws] != chosen.label[:, None]
            pick = draws.gather(1, other.to(torch.uint8).argmax(1, keepdim=True)).squeeze(1)
            hit = hit & other.any(1)
            image = torch.where(hit[:, None, None, None], self.split.image[pick], image)
        if self.blur_frac > 0 and self.blur is not None:
            hit = torch.rand(len(image), generator=rng, device=device) < self.blur_frac
            image = torch.where(hit[:, None, None, None], self.blur(image), image)
        return image


def balance(split: Split) -> Tensor:
    """(N,) sampling weights 1 / p(b|y), none above ten times the least."""
    assert split.bias is not None
    label, bias = split.label.cpu(), split.bias.cpu()
    count = torch.zeros(int(label.max()) + 1, int(bias.max()) + 1, dtype=torch.float64)
    count.index_put_((label, bias), torch.ones((), dtype=torch.float64), accumulate=True)
    weight = (count.sum(1)[label] / count[label, bias])
    return weight.clamp(max=LIMIT * weight.min())
