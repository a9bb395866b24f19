"""A projector and a predictor behind it, for losses that compare with a teacher."""

from torch import Tensor, nn

from contrastive.head.mlp import MLP


class PredictorHead(nn.Module):
    """A projector, and a predictor of what a teacher projects: the teacher has a projector alone (Grill et al. 2020).

        BYOL        projector Linear → BatchNorm → ReLU → Linear, 4096 and 256 wide; a predictor like it
        SimSiam     projector (Linear → BatchNorm → ReLU)² → Linear → BatchNorm, 2048 wide; a predictor 512 wide inside
        MoCo v3     projector Linear → BatchNorm → ReLU → Linear → BatchNorm, 4096 and 256 wide; a predictor like it,
                    without the last BatchNorm

    Args:
        in_dim: F.
        hidden_dim: width of the projector's hidden layers; None = F.
        out_dim: D.
        n_layers: linear layers of the projector, at least 2.
        batch_norm: of the projector: `hidden`, `all` or `none`, see `MLP`.
        predictor_dim: width of the predictor's hidden layer; None = that of the projector.

    Shapes: (N, F) → (N, D).

    Raises:
        ConfigError: an argument out of range.
    """

    def __init__(
        self,
        *,
        in_dim: int,
        hidden_dim: int | None = None,
        out_dim: int = 128,
        n_layers: int = 2,
        batch_norm: str = "hidden",
        predictor_dim: int | None = None,
    ) -> None:
        super().__init__()
        self.projector = MLP(
            in_dim=in_dim, hidden_dim=hidden_dim, out_dim=out_dim, n_layers=n_layers, batch_norm=batch_norm
        )
        self.predictor = MLP(in_dim=out_dim, hidden_dim=predictor_dim or hidden_dim or in_dim, out_dim=out_dim)
        self.dim = out_dim

    def forward(self, h: Tensor) -> Tensor:
        p: Tensor = self.predictor(self.projector(h))
        return p
