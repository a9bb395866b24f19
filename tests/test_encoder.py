"""Encoders, heads and schedules."""

import math

import pytest
import torch
import torchvision
from torch import nn

from contrastive import make
from contrastive.head.mlp import MLP
from contrastive.testing.inputs import u


@pytest.mark.parametrize("stem", ["small", "large"])
@pytest.mark.parametrize(("depth", "dim"), [(18, 512), (34, 512), (50, 2048)])
def test_width_64_is_torchvisions_network_but_for_the_small_stem(depth, dim, stem):
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


def test_heads():
    x = torch.randn(6, 10)
    assert make("head/linear", in_dim=10)(x).shape == (6, 128)
    assert torch.equal(make("head/identity", in_dim=10)(x), x)
    mlp = MLP(in_dim=10, hidden_dim=None, out_dim=4)
    assert mlp(x).shape == (6, 4)
    assert [type(layer) for layer in mlp] == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear]
    assert mlp[0].bias is None


def test_schedules():
    assert make("schedule/constant")(3.7, 10) == 1
    cosine = make("schedule/cosine", warmup_epochs=2, final=0.1)
    assert [cosine(e, 10) for e in (0, 1, 2)] == [0, 0.5, 1]
    assert cosine(6, 10) == pytest.approx(0.55)
    assert cosine(10, 10) == pytest.approx(0.1)
    step = make("schedule/step", milestones=[2, 4], gamma=0.1)
    assert [step(e, 10) for e in (0, 1.9, 2, 4)] == pytest.approx([1, 1, 0.1, 0.01])


def test_simple_convnet():
    net = make("encoder/simple_convnet")
    assert net(torch.randn(2, 3, 28, 28)).shape == (2, 128)
    assert net.dim == 128
    convolutions = [layer for layer in net.layers if isinstance(layer, nn.Conv2d)]
    assert [c.out_channels for c in convolutions] == [16, 32, 64, 128]
    assert {c.kernel_size for c in convolutions} == {(7, 7)}
    assert isinstance(net.layers[-1], nn.Tanh)


@pytest.mark.parametrize(
    ("nesterov", "adapted", "variant"),
    [
        (False, True, "google-research/simclr LARSOptimizer, classic momentum (re-typed from TF)"),
        (True, True, "same, Nesterov"),
        (False, False, "same, no layer adaptation (bias/BN group), wd 0"),
    ],
)
def test_lars_goldens(golden, nesterov, adapted, variant):
    (case,) = [c for c in golden["extra"]["lars"] if c["variant"] == variant]
    i, j = torch.meshgrid(torch.arange(4), torch.arange(3), indexing="ij")
    shape = (4, 3) if adapted else (12,)  # a tensor of one dimension is neither decayed nor scaled
    w = nn.Parameter(u(400 + i, 1 + j).reshape(shape))
    optimizer = make("optimizer/lars", lr=case["lr"], nesterov=nesterov)([w])
    for s in range(1, case["steps"] + 1):
        w.grad = u(400 + i, 1 + j + 10 * s).reshape(shape)
        optimizer.step()
    assert w.norm().item() == pytest.approx(case["w_l2"], rel=1e-9)
    assert (w.detach().reshape(4, 3) * torch.cos((i + 2 * j).double())).sum().item() == pytest.approx(
        case["w_probe"], rel=1e-9
    )


def test_lars_on_zero_gradients_and_weights():
    w = nn.Parameter(torch.zeros(3, 2))
    v = nn.Parameter(torch.ones(3, 2))
    optimizer = make("optimizer/lars", weight_decay=0.0)([w, v])
    w.grad, v.grad = torch.ones(3, 2), torch.zeros(3, 2)
    optimizer.step()
    assert torch.equal(w.detach(), -torch.ones(3, 2))
    assert torch.equal(v.detach(), torch.ones(3, 2))
