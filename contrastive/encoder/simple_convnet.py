"""The small network of the Biased-MNIST papers."""

from torch import Tensor, nn

from contrastive.errors import ConfigError, check_choice

ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU}


class SimpleConvNet(nn.Module):
    """Four convolutions with BatchNorm and ReLU, then a global average (Bahng et al. 2020; Barbano et al. 2023).

    Args:
        width: channels of the first convolution; the others have 2, 4 and 8 times as many (16-32-64-128 in the papers).
        kernel_size: odd (7 in the papers).
        last: activation after the last convolution, `tanh` (Barbano et al.) or `relu` (Hong & Yang).

    Shapes: (N, 3, H, W) → (N, F) with F = `dim` = 8 · width.

    Raises:
        ConfigError: an argument out of range.
    """

    def __init__(self, *, width: int = 16, kernel_size: int = 7, last: str = "tanh") -> None:
        super().__init__()
        if not width >= 1:
            raise ConfigError(f"encoder.width must be at least 1, got {width}: try encoder.width=16")
        if kernel_size % 2 != 1:
            raise ConfigError(f"encoder.kernel_size must be odd, got {kernel_size}: try encoder.kernel_size=7")
        check_choice("encoder.last", last, ACTIVATIONS)
        layers: list[nn.Module] = []
        channels = 3
        for i in range(4):
            layers += [
                nn.Conv2d(channels, width * 2**i, kernel_size, padding=kernel_size // 2),
                nn.BatchNorm2d(width * 2**i),
                ACTIVATIONS["relu" if i < 3 else last](),
            ]
            channels = width * 2**i
        self.layers = nn.Sequential(*layers)
        self.dim = channels

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.layers(x)
        return features.mean((2, 3))
