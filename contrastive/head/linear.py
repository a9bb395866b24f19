"""A linear projection head."""

from torch import nn

from contrastive.errors import ConfigError


class Linear(nn.Linear):
    """(N, F) → (N, D) by one linear map; in_dim F, out_dim D."""

    def __init__(self, *, in_dim: int, out_dim: int) -> None:
        if not out_dim >= 1:
            raise ConfigError(f"head.out_dim must be at least 1, got {out_dim}: try head.out_dim=128")
        super().__init__(in_dim, out_dim)
        self.dim = out_dim
