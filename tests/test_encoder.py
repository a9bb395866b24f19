"""Encoders: torchvision's ResNets and the small network of the Biased-MNIST papers."""

import math

import pytest
import torch
import torchvision
from torch import nn

from contrastive.encoder.base import MapEncoder
from contrastive.experiment.make import make


@pytest.mark.parametrize("stem", ["small", "large"])
@pytest.mark.parametrize(("depth", "dim"), [(18, 512), (34, 512), (50, 2048)])
def test_width_64_equals_torchvision_but_for_the_stem(depth, dim, stem):
    torch.manual_seed(0)
    ours = make(f"encoder/resnet{depth}", stem=stem).eval()
    theirs = getattr(torchvision.models, f"resnet{depth}")()
    theirs.fc = nn.Identity()
    if stem == "small":
        theirs.conv1, theirs.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    theirs.load_state_dict(ours.state_dict())  # the same names and shapes
    x = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(ours(x), theirs.eval()(x))
    assert ours.dim == dim


def test_initialization_is_torchvisions():
    torch.manual_seed(0)
    ours = make("encoder/resnet18").layer4[1].conv2.weight
    assert ours.std().item() == pytest.approx(math.sqrt(2 / (512 * 9)), rel=0.02)  # Kaiming, fan out


def test_width_scales_every_stage():
    narrow = make("encoder/resnet18", width=8)
    assert narrow.dim == 64
    assert narrow(torch.randn(2, 3, 16, 16)).shape == (2, 64)


def test_simple_convnet():
    net = make("encoder/simple_convnet")
    assert net(torch.randn(2, 3, 28, 28)).shape == (2, 128)
    assert net.dim == 128
    convolutions = [layer for layer in net.layers if isinstance(layer, nn.Conv2d)]
    assert [c.out_channels for c in convolutions] == [16, 32, 64, 128]
    assert {c.kernel_size for c in convolutions} == {(7, 7)}
    assert isinstance(net.layers[-1], nn.Tanh)


def test_simple_convnet_is_initialized_as_in_both_codebases():
    torch.manual_seed(0)
    convolutions = [layer for layer in make("encoder/simple_convnet").layers if isinstance(layer, nn.Conv2d)]
    for layer in convolutions[1:]:
        fan_out = layer.out_channels * 7 * 7
        assert layer.weight.std().item() == pytest.approx(math.sqrt(2 / fan_out), rel=0.03)


def test_simple_convnet_map_is_behind_the_second_convolution():
    net, x = make("encoder/simple_convnet").eval(), torch.randn(2, 3, 12, 12)
    outputs = []
    net.layers[5].register_forward_hook(lambda module, args, output: outputs.append(output))
    h = net(x)
    assert isinstance(net, MapEncoder)
    assert net.map(x).shape == (2, net.map_dim, 12, 12) == (2, 32, 12, 12)
    torch.testing.assert_close(net.map(x), outputs[0])
    torch.testing.assert_close(net.features(outputs[0]), h)
