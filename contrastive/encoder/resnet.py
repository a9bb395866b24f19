"""ResNets for small and large images."""

from typing import NamedTuple

from torch import Tensor, nn
from torchvision.models.resnet import BasicBlock, Bottleneck

from contrastive.errors import check_at_least, check_choice

DEPTHS: dict[int, tuple[type[BasicBlock] | type[Bottleneck], tuple[int, ...]]] = {
    18: (BasicBlock, (2, 2, 2, 2)),
    34: (BasicBlock, (3, 4, 6, 3)),
    50: (Bottleneck, (3, 4, 6, 3)),
}


class Stem(NamedTuple):
    """What stands before the first block: convolution, BatchNorm, ReLU, max-pool."""

    kernel: int
    stride: int
    padding: int
    relu: bool = True
    maxpool: bool = False


STEMS = {
    "small": Stem(3, 1, 1),
    "large": Stem(7, 2, 3, maxpool=True),
    "solo_learn": Stem(3, 1, 2),
    "lightly": Stem(3, 1, 1, relu=False),
}


class ResNet(nn.Module):
    """torchvision's residual blocks behind a stem for small or for large images.

    At width 64 with the large stem it is torchvision's network of that depth, parameter for parameter.

    Args:
        depth: 18, 34 or 50.
        width: channels of the first stage (64 in He et al. 2016); the others follow as 2, 4 and 8 times that.
        stem: `small` is 3 × 3 with stride 1 (32 → 32 pixels), `large` 7 × 7 with stride 2 and a max-pool (224 → 56).
            Two more evaluate the files of others as they were trained: `solo_learn` is its 3 × 3 for CIFAR, which pads
            by 2 (32 → 34 pixels); `lightly` is its own ResNet inside nn.Sequential, without ReLU after bn1.

        in_channels: K, of the images.

    The features are the average of layer4 over all positions.

    Shapes: (N, K, H, W) → (N, F) with F = `dim` = 8 · width (32 · width at depth 50).

    Raises:
        ConfigError: an argument out of range.
    """

    feature = "average of layer4 over all positions"

    def __init__(self, *, depth: int = 18, width: int = 64, stem: str = "small", in_channels: int = 3) -> None:
        super().__init__()
        check_choice("encoder.depth", str(depth), [*map(str, DEPTHS)])
        check_at_least("encoder.width", width, 1, example=64)
        check_choice("encoder.stem", stem, STEMS)
        block, counts = DEPTHS[depth]
        first = STEMS[stem]
        self.stem = stem
        self.conv1 = nn.Conv2d(in_channels, width, first.kernel, first.stride, padding=first.padding, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True) if first.relu else nn.Identity()
        self.maxpool = nn.MaxPool2d(3, 2, padding=1) if first.maxpool else nn.Identity()
        stages, channels = [], width
        for i, count in enumerate(counts):
            stages.append(_stage(block, channels, planes=width * 2**i, count=count, stride=1 if i == 0 else 2))
            channels = width * 2**i * block.expansion
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.dim = channels
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return x.mean((2, 3))


def _stage(
    block: type[BasicBlock] | type[Bottleneck], channels: int, *, planes: int, count: int, stride: int
) -> nn.Sequential:
    """`count` residual blocks; the first one changes the resolution and the number of channels."""
    shortcut, out_channels = None, planes * block.expansion
    if stride > 1 or channels != out_channels:
        shortcut = nn.Sequential(nn.Conv2d(channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels))
    first = block(channels, planes, stride, shortcut)
    return nn.Sequential(first, *(block(out_channels, planes) for _ in range(count - 1)))
