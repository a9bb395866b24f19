"""A constant learning rate."""


class Constant:
    """`schedule(epoch, epochs)` → 1, the factor on the learning rate."""

    def __call__(self, epoch: float, epochs: int) -> float:
        return 1.0
