"""No projection head: the loss sees the encoder's features."""

from torch import nn


class Identity(nn.Identity):
    """(N, F) → (N, F), D = F = in_dim."""

    def __init__(self, *, in_dim: int) -> None:
        super().__init__()
        self.dim = in_dim
