"""Projection heads with hidden layers."""

from torch import nn

from contrastive.errors import check_at_least, check_choice

BATCH_NORM = ("hidden", "all", "none")


class MLP(nn.Sequential):
    """Linear layers with ReLU between them (Chen et al. 2020, §2.1), with or without BatchNorm.

    The heads of the papers, each hidden layer as wide as the encoder's features unless stated:

        DCL, debiased positives   Linear → BatchNorm → ReLU → Linear              2 layers, `hidden`, 512 wide
        SimCLR's released code    (Linear → BatchNorm → ReLU)² → Linear → BatchNorm   3 layers, `all`
        SupCon, Barbano et al.    Linear → ReLU → Linear                          2 layers, `none`

    A linear layer before a BatchNorm has no bias. The last BatchNorm of `all` scales and does not shift, as in
    google-research/simclr: its bias stays 0.

    Args:
        in_dim: F.
        hidden_dim: width of the hidden layers; None = F.
        out_dim: D.
        n_layers: number of linear layers, at least 2.
        batch_norm: after which linear layers a BatchNorm stands: `hidden`, all but the last; `all`; or `none`.

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
    ) -> None:
        check_at_least("head.out_dim", out_dim, 1, example=128)
        if hidden_dim is not None:
            check_at_least("head.hidden_dim", hidden_dim, 1, example=128)
        check_at_least("head.n_layers", n_layers, 2, example="2, or head=linear")
        check_choice("head.batch_norm", batch_norm, BATCH_NORM)
        layers: list[nn.Module] = []
        dim, hidden_dim = in_dim, hidden_dim or in_dim
        for _ in range(n_layers - 1):
            layers.append(nn.Linear(dim, hidden_dim, bias=batch_norm == "none"))
            if batch_norm != "none":
                layers.append(nn.BatchNorm1d(hidden_dim))
            layers.append(nn.ReLU(inplace=True))
            dim = hidden_dim
        layers.append(nn.Linear(dim, out_dim, bias=batch_norm != "all"))
        if batch_norm == "all":
            layers.append(nn.BatchNorm1d(out_dim))
            layers[-1].bias.requires_grad_(False)
        super().__init__(*layers)
        self.dim = out_dim
