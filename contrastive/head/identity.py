"""No projection head: the loss reads the encoder's features."""

from torch import nn


class Identity(nn.Identity):
    """The projections are the features.

    Args:
        in_dim: F = D.

    Shapes: (N, F) → (N, F).
    """

    def __init__(self, *, in_dim: int) -> None:
        super().__init__()
        self.dim = in_dim
