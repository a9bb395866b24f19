"""The small network of the Biased-MNIST papers."""

from torch import Tensor, nn

from contrastive.errors import check_at_least, check_choice

ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU}


class SimpleConvNet(nn.Module):
    """Four convolutions with BatchNorm and ReLU, then a global average (Bahng et al. 2020; Barbano et al. 2023).

    Convolutions are initialized as in both codebases: Kaiming normal, fan out.

    Args:
        width: channels of the first convolution; the others have 2, 4 and 8 times as many (16-32-64-128 in the papers).
        kernel_size: odd (7 in the papers).
        last: activation after the last convolution, `tanh` (Barbano et al.) or `relu` (Hong & Yang).
        in_channels: K, of the images.

    Shapes: (N, K, H, W) → (N, F) with F = `dim` = 8 · width.

    Raises:
        ConfigError: an argument out of range.
    """

    feature = "average of the last activation over all positions"

    def __init__(self, *, width: int = 16, kernel_size: int = 7, last: str = "tanh", in_channels: int = 3) -> None:
        super().__init__()
        check_at_least("encoder.width", width, 1, example=16)
        check_choice("encoder.last", last, ACTIVATIONS)
        layers: list[nn.Module] = []
        channels = in_channels
        for i in range(4):
            layers += [
                nn.Conv2d(channels, width * 2**i, kernel_size, padding=kernel_size // 2),
                nn.BatchNorm2d(width * 2**i),
                ACTIVATIONS["relu" if i < 3 else last](),
            ]
            channels = width * 2**i
        self.layers = nn.Sequential(*layers)
        self.dim = channels
        for module in self.layers:
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.layers(x)
        return h.mean((2, 3))
