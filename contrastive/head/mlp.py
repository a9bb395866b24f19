"""The projection head of SimCLR."""

from torch import nn

from contrastive.errors import ConfigError


class MLP(nn.Sequential):
    """Linear → BatchNorm → ReLU → Linear (Chen et al. 2020, §2.1, with the debiased papers' BatchNorm).

    Args:
        in_dim: F. hidden_dim: None = F. out_dim: D.

    Shapes: (N, F) → (N, D).

    Raises:
        ConfigError: a dimension below 1.
    """

    def __init__(self, *, in_dim: int, hidden_dim: int | None = None, out_dim: int = 128) -> None:
        if not out_dim >= 1 or (hidden_dim is not None and not hidden_dim >= 1):
            raise ConfigError(
                f"head dimensions must be at least 1, got {hidden_dim} and {out_dim}: try head.out_dim=128"
            )
        hidden_dim = hidden_dim or in_dim
        super().__init__(
            nn.Linear(in_dim, hidden_dim, bias=False),
            nn.BatchNorm1d(hidden_dim),
            nn.ReLU(inplace=True),
            nn.Linear(hidden_dim, out_dim),
        )
        self.dim = out_dim
