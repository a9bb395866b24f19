"""A learning rate that drops by a factor at milestones."""

from collections.abc import Sequence

from contrastive.errors import check_between


class Step:
    """`schedule(epoch, epochs)` → gamma to the power of the number of milestones reached.

    Args:
        milestones: epochs.
        gamma: factor in (0, 1].

    Raises:
        ConfigError: an argument out of range.
    """

    def __init__(self, *, milestones: Sequence[float] = (26, 53), gamma: float = 0.1) -> None:
        check_between("schedule.gamma", gamma, 0, 1, exclude=(0,), example=0.1)
        self.milestones, self.gamma = tuple(milestones), gamma

    def __call__(self, epoch: float, epochs: int) -> float:
        return self.gamma ** sum(epoch >= m for m in self.milestones)
