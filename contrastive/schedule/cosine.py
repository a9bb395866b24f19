"""Cosine decay with linear warm-up."""

import math

from contrastive.errors import ConfigError


class Cosine:
    """`schedule(epoch, epochs)` → factor on the learning rate (Loshchilov & Hutter 2017, without restarts).

    The factor climbs linearly from 0 to 1 over the first warmup_epochs, then falls to `final` along half a cosine.

    Args:
        warmup_epochs: at least 0, may be a fraction; 0 = none.
        final: the last factor, in [0, 1].

    Raises:
        ConfigError: an argument out of range.
    """

    def __init__(self, *, warmup_epochs: float = 0, final: float = 0.0) -> None:
        if not warmup_epochs >= 0:
            raise ConfigError(
                f"schedule.warmup_epochs must be at least 0, got {warmup_epochs}: try schedule.warmup_epochs=10"
            )
        if not 0 <= final <= 1:
            raise ConfigError(f"schedule.final must lie in [0, 1], got {final}: try schedule.final=0")
        self.warmup_epochs = warmup_epochs
        self.final = final

    def __call__(self, epoch: float, epochs: int) -> float:
        if epoch < self.warmup_epochs:
            return epoch / self.warmup_epochs
        progress = (epoch - self.warmup_epochs) / max(epochs - self.warmup_epochs, 1e-9)
        return self.final + (1 - self.final) * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
