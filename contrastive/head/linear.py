"""A linear projection head."""

from torch import nn

from contrastive.errors import check_at_least


class Linear(nn.Linear):
    """One linear map with bias.

    Args:
        in_dim: F.
        out_dim: D.

    Shapes: (N, F) → (N, D).

    Raises:
        ConfigError: out_dim below 1.
    """

    def __init__(self, *, in_dim: int, out_dim: int = 128) -> None:
        check_at_least("head.out_dim", out_dim, 1, example=128)
        super().__init__(in_dim, out_dim)
        self.dim = out_dim
