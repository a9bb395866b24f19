"""Random numbers for n images, on the generator's device."""

import torch
from torch import Generator, Tensor


def uniform(n: int, low: float, high: float, generator: Generator) -> Tensor:
    """(n,) float32, uniform in [low, high)."""
    return torch.rand(n, generator=generator, device=generator.device) * (high - low) + low


def bernoulli(n: int, p: float, generator: Generator) -> Tensor:
    """(n,) bool, true with probability p."""
    return torch.rand(n, generator=generator, device=generator.device) < p
