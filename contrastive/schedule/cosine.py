"""Cosine decay with linear warm-up."""

import math

from contrastive.errors import check_at_least, check_between, check_choice

DECAY_FROM = ("warmup", "start")


class Cosine:
    """`schedule(epoch, epochs)` → factor on the learning rate (Loshchilov & Hutter 2017, without restarts).

    The factor climbs linearly from `warmup_from` over the first warmup_epochs, then falls to `final` along half a
    cosine. The published schedules:

        google-research/simclr   warmup_epochs=10
        SupCon, Barbano et al.   warmup_epochs=10 warmup_from=0.01/lr final=0.001 decay_from=start

    SupCon's code changes the decaying rate once an epoch, this schedule at every batch.

    Args:
        warmup_epochs: at least 0, may be a fraction; 0 = none.
        warmup_from: the first factor when there is a warm-up, in [0, 1].
        final: the last factor, in [0, 1].
        decay_from: where the half cosine begins. `warmup`: where the warm-up ends, with factor 1; `start`: at epoch 0,
            and the warm-up climbs to the value that the cosine has when the warm-up ends.

    Raises:
        ConfigError: an argument out of range.
    """

    def __init__(
        self, *, warmup_epochs: float = 0, warmup_from: float = 0.0, final: float = 0.0, decay_from: str = "warmup"
    ) -> None:
        check_at_least("schedule.warmup_epochs", warmup_epochs, 0, example=10)
        check_between("schedule.warmup_from", warmup_from, 0, 1, example=0.02)
        check_between("schedule.final", final, 0, 1, example=0)
        check_choice("schedule.decay_from", decay_from, DECAY_FROM)
        self.warmup_epochs = warmup_epochs
        self.warmup_from = warmup_from
        self.final = final
        self.decay_start = warmup_epochs if decay_from == "warmup" else 0.0

    def __call__(self, epoch: float, epochs: int) -> float:
        if epoch >= self.warmup_epochs:
            return self._decay(epoch, epochs)
        warmup_to = self._decay(self.warmup_epochs, epochs)
        return self.warmup_from + (warmup_to - self.warmup_from) * epoch / self.warmup_epochs

    def _decay(self, epoch: float, epochs: int) -> float:
        """The half cosine from 1 to `final`."""
        progress = (epoch - self.decay_start) / max(epochs - self.decay_start, 1e-9)
        return self.final + (1 - self.final) * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
