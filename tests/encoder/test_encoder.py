"""Encoders: torchvision's ResNets, the network of the Biased-MNIST papers, and the refusal of unusable ones; heads."""

import math
from dataclasses import replace

import pytest
import torch
import torchvision
from torch import nn

from contrastive.errors import ConfigError
from contrastive.experiment.build import build
from contrastive.experiment.components import check_encoder_output
from contrastive.experiment.make import make
from contrastive.head.mlp import MLP
from tests.helpers import TINY, further


@pytest.mark.parametrize("stem", ["small", "large"])
@pytest.mark.parametrize(("depth", "dim"), [(18, 512), *further((34, 512), (50, 2048))])
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


def kaiming(layer: nn.Conv2d) -> float:
    """The standard deviation of He et al. by the fan out."""
    return math.sqrt(2 / (layer.out_channels * layer.kernel_size[0] ** 2))


def test_resnets_are_initialized_as_torchvisions():
    torch.manual_seed(0)
    layer = make("encoder/resnet18").layer4[1].conv2
    assert layer.weight.std().item() == pytest.approx(kaiming(layer), rel=0.02)


def test_simple_convnet_is_that_of_both_codebases():
    torch.manual_seed(0)
    net = make("encoder/simple_convnet")
    assert net(torch.randn(2, 3, 28, 28)).shape == (2, 128)
    assert net.dim == 128
    convolutions = [layer for layer in net.layers if isinstance(layer, nn.Conv2d)]
    assert [c.out_channels for c in convolutions] == [16, 32, 64, 128]
    assert {c.kernel_size for c in convolutions} == {(7, 7)}
    assert isinstance(net.layers[-1], nn.Tanh)
    for layer in convolutions[1:]:
        assert layer.weight.std().item() == pytest.approx(kaiming(layer), rel=0.03)


class Flattened(nn.Module):
    """An encoder for images of one size, whose dim may be stated wrongly or not at all."""

    def __init__(self, *, size: int = 8, dim: int | None = 5, n_outputs: int = 5) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(3 * size * size, n_outputs), nn.BatchNorm1d(n_outputs))
        if dim is not None:
            self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def test_an_encoder_that_ships_is_accepted_and_unchanged():
    encoder = make("encoder/resnet18_narrow")
    state = {key: value.clone() for key, value in encoder.state_dict().items()}
    for training in (True, False):
        encoder.train(training)
        check_encoder_output(encoder, 16)
        assert all(module.training == training for module in encoder.modules())
    assert all(torch.equal(value, state[key]) for key, value in encoder.state_dict().items())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": None}, "needs an int attribute dim.*try encoder=resnet18"),
        ({"dim": 7}, r"returns \(2, 5\) for 2 images instead of \(N, dim\) = \(2, 7\).*try encoder=resnet18"),
        ({"size": 9}, r"fails on images of shape \(2, 3, 8, 8\).*try encoder.image_size=8 .*another dataset.size"),
    ],
)
def test_a_broken_encoder_is_refused_in_one_sentence(options, message):
    encoder = Flattened(**options)
    with pytest.raises(ConfigError, match=message) as refusal:
        check_encoder_output(encoder, 8)
    assert "\n" not in str(refusal.value)
    assert encoder.training


def test_a_broken_encoder_is_refused_before_data_is_loaded(composed, monkeypatch):
    def loaded(dataset: object) -> None:
        raise AssertionError("the data was loaded")

    monkeypatch.setattr("contrastive.experiment.build.load_data", loaded)
    settings = replace(composed(*TINY), encoder={"_target_": f"{__name__}.Flattened", "dim": 7})
    with pytest.raises(ConfigError, match="instead of"):
        build(settings)


def kinds(head: nn.Sequential) -> list[type[nn.Module]]:
    return [type(layer) for layer in head]


def test_shapes_of_heads():
    x = torch.randn(6, 10)
    assert make("head/linear", in_dim=10)(x).shape == (6, 128)
    assert torch.equal(make("head/identity", in_dim=10)(x), x)
    assert MLP(in_dim=10, out_dim=4)(x).shape == (6, 4)
    assert MLP(in_dim=10, hidden_dim=7, out_dim=4, n_layers=4)(x).shape == (6, 4)


def test_the_default_head_is_that_of_the_debiased_papers():
    mlp = MLP(in_dim=2048, hidden_dim=512)
    assert kinds(mlp) == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear]
    assert [mlp[0].in_features, mlp[0].out_features, mlp[3].out_features] == [2048, 512, 128]
    assert mlp[0].bias is None
    assert mlp[3].bias is not None


def test_simclr_cifar_head_ends_in_batch_norm_without_shift():
    head = make("head/simclr_cifar", in_dim=512)
    hidden = [nn.Linear, nn.BatchNorm1d, nn.ReLU]
    assert kinds(head) == [*hidden, *hidden, nn.Linear, nn.BatchNorm1d]
    assert [layer.out_features for layer in head if isinstance(layer, nn.Linear)] == [512, 512, 128]
    assert all(layer.bias is None for layer in head if isinstance(layer, nn.Linear))
    z = head(torch.randn(64, 512))
    assert torch.allclose(z.mean(0), torch.zeros(128), atol=1e-6)
    (z - 1).square().sum().backward()
    torch.optim.SGD(head.parameters(), lr=1.0).step()
    assert torch.equal(head[-1].bias.detach(), torch.zeros(128))
    assert not torch.equal(head[-1].weight.detach(), torch.ones(128))


def test_the_head_of_supcon_has_no_batch_norm():
    head = make("head/supcon", in_dim=2048)
    assert kinds(head) == [nn.Linear, nn.ReLU, nn.Linear]
    assert [head[0].out_features, head[2].out_features] == [2048, 128]
    assert head[0].bias is not None
    assert head[2].bias is not None
