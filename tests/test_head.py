"""Projection heads."""

import torch
from torch import nn

from contrastive.head.mlp import MLP
from contrastive.program.make import make


def test_shapes_and_layers():
    x = torch.randn(6, 10)
    assert make("head/linear", in_dim=10)(x).shape == (6, 128)
    assert torch.equal(make("head/identity", in_dim=10)(x), x)
    mlp = MLP(in_dim=10, out_dim=4)
    assert mlp(x).shape == (6, 4)
    assert [type(layer) for layer in mlp] == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear]
    assert mlp[0].bias is None
