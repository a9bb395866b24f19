"""The layout of maps that a network bears on which device; words of precision are for tests/gpu."""

import torch

from contrastive.encoder.resnet import ResNet
from contrastive.encoder.simple_convnet import SimpleConvNet
from contrastive.experiment.build import build
from contrastive.training.precision import bears_channels_last
from tests.helpers import BARE

CPU, GPU = torch.device("cpu"), torch.device("cuda:0")


def test_narrow_networks_are_contiguous_on_a_cpu(composed) -> None:
    """Those that torch 2.15 has trained beyond their memory where a CPU has no AVX-512."""
    narrow = build(composed(*BARE, "channels_last=true", "evaluator=[]"))
    assert narrow.step.normalize.format == torch.contiguous_format
    assert not any(bears_channels_last(ResNet(width=width), CPU) for width in (1, 7))
    assert bears_channels_last(ResNet(width=8), CPU)
    assert bears_channels_last(ResNet(width=4), GPU)
    assert bears_channels_last(SimpleConvNet(width=4), CPU)  # none of its convolutions is 1 × 1
