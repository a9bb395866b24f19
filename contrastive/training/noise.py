"""Noise in the positives: view 1 shows another image, or a blurred one (Troeshestova & Isachenko 2023)."""

import torch
from torch import Tensor

from contrastive.augmentation._functional import blur_uint8
from contrastive.errors import ConfigError
from contrastive.types import Shard, Split

TRIES = 64  # draws until an image of another class comes up


class ViewNoise:
    """`noise(batch, n, shard, generator)` → (B, 3, H, W) uint8, the images that view 1 is taken from.

    Args:
        noise_frac: probability that view 1 shows an image of another class (the released code's noise); needs labels.
        blur_frac: probability that view 1 is taken from a blurred image (the noise of the paper's text).

    Raises:
        ConfigError: noise_frac without a label for every image, or with a single class.
    """

    def __init__(self, split: Split, *, noise_frac: float, blur_frac: float) -> None:
        if noise_frac > 0 and not ((split.label >= 0).all() and split.label.unique().numel() > 1):
            raise ConfigError("noise_frac needs a label for every training image and two classes: try noise_frac=0")
        self.split, self.noise_frac, self.blur_frac = split, noise_frac, blur_frac

    @property
    def active(self) -> bool:
        return self.noise_frac > 0 or self.blur_frac > 0

    def __call__(self, batch: Split, n: int, shard: Shard, generator: torch.Generator) -> Tensor:
        """Source images of view 1 for this process's part of a batch of n images; drawn for the whole batch."""
        image, device, rows = batch.image, batch.image.device, shard.of(n)
        noise, draws, blur = self._draw(n, generator)
        if noise is not None and draws is not None:
            hit, draws = noise[rows].to(device), draws[rows].to(device)
            other_class = self.split.label[draws] != batch.label[:, None]
            pick = draws.gather(1, other_class.to(torch.uint8).argmax(1, keepdim=True)).squeeze(1)
            hit = hit & other_class.any(1)
            image = torch.where(hit[:, None, None, None], self.split.image[pick], image)
        if blur is not None:
            image = torch.where(blur[rows].to(device)[:, None, None, None], blur_uint8(image), image)
        return image

    def skip(self, n: int, generator: torch.Generator) -> None:
        """Move the generator on as a batch of n images does."""
        self._draw(n, generator)

    def _draw(self, n: int, generator: torch.Generator) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """For n images: which show another one, (n, TRIES) candidates for it, and which are blurred."""
        noise, draws, blur = None, None, None
        if self.noise_frac > 0:
            noise = torch.rand(n, generator=generator) < self.noise_frac
            draws = torch.randint(len(self.split), (n, TRIES), generator=generator)
        if self.blur_frac > 0:
            blur = torch.rand(n, generator=generator) < self.blur_frac
        return noise, draws, blur
