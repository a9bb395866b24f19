"""Projection heads."""

import torch
from torch import nn

from contrastive.experiment.make import make
from contrastive.head.mlp import MLP


def kinds(head: nn.Sequential) -> list[type[nn.Module]]:
    return [type(layer) for layer in head]


def test_shapes():
    x = torch.randn(6, 10)
    assert make("head/linear", in_dim=10)(x).shape == (6, 128)
    assert torch.equal(make("head/identity", in_dim=10)(x), x)
    assert MLP(in_dim=10, out_dim=4)(x).shape == (6, 4)
    assert MLP(in_dim=10, hidden_dim=7, out_dim=4, n_layers=4)(x).shape == (6, 4)


def test_the_default_is_the_head_of_the_debiased_papers():
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
    optimizer = torch.optim.SGD(head.parameters(), lr=1.0)
    (z - 1).square().sum().backward()
    optimizer.step()
    assert torch.equal(head[-1].bias.detach(), torch.zeros(128))
    assert not torch.equal(head[-1].weight.detach(), torch.ones(128))


def test_the_head_of_supcon_has_no_batch_norm():
    head = make("head/supcon", in_dim=2048)
    assert kinds(head) == [nn.Linear, nn.ReLU, nn.Linear]
    assert [head[0].out_features, head[2].out_features] == [2048, 128]
    assert head[0].bias is not None
    assert head[2].bias is not None
