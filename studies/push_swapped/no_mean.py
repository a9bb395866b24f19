"""A head whose projections have no common mean: no cone is left, whatever the loss compares."""

from torch import Tensor, nn

from contrastive.head.mlp import MLP
from contrastive.types import unit


class CenteredMLP(MLP):
    """The MLP's unit projections less their mean over the batch, both views; a loss scales them to length 1 again."""

    def __init__(self, *, in_dim: int, hidden_dim: int | None = None, out_dim: int = 128) -> None:
        super().__init__(in_dim=in_dim, hidden_dim=hidden_dim, out_dim=out_dim)
        self.append(Centered())


class Centered(nn.Module):
    """Unit vectors less their mean, (N, D) → (N, D)."""

    def forward(self, z: Tensor) -> Tensor:
        z = unit(z)
        return z - z.mean(0)
