"""The tiled path against the dense one, and shares of a batch against the whole."""

import pytest
import torch

from contrastive import make
from contrastive.loss.base import Loss, SelfSupervisedLoss, SupervisedContrastiveLoss
from contrastive.pairs import pairs, tiles
from contrastive.pairs.pairs import Pairs
from contrastive.pairs.relations import other_image
from contrastive.testing.conformance import inputs, prepared
from contrastive.types import Shard
from tests.test_conformance import TERMS

PER_ANCHOR = [
    name
    for group, name in TERMS
    if group == "loss" and isinstance(make(f"{group}/{name}"), SelfSupervisedLoss | SupervisedContrastiveLoss)
]


def value_and_gradient(loss: Loss, *batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    z, label, bias = batch
    z = z.clone().requires_grad_()
    value = loss(z, label, bias)
    return value.detach(), torch.autograd.grad(value, z)[0]


@pytest.fixture
def tiled(monkeypatch):
    """tiled(): from now on no batch is small enough for its matrix, and everything comes in several odd pieces."""

    def arm() -> None:
        def refuse(self):
            raise AssertionError("the whole matrix was asked for")

        monkeypatch.setattr(pairs, "DENSE", 0)
        monkeypatch.setattr(pairs, "ROWS", 150)
        monkeypatch.setattr(tiles, "SIDE", 5)
        monkeypatch.setattr(Pairs, "logits", property(refuse))

    return arm


@pytest.mark.parametrize("name", PER_ANCHOR)
@pytest.mark.parametrize("temperature", [0.01, 0.1, 0.5])  # one maximum serves all in float32 from 0.025 on
def test_tiles_equal_the_matrix(name, temperature, tiled):
    loss = make(f"loss/{name}", temperature=temperature)
    wide = inputs(11, 2)
    narrow = (wide[0].float(), *wide[1:])
    dense, dense_narrow = value_and_gradient(loss, *wide), value_and_gradient(loss, *narrow)
    tiled()
    torch.testing.assert_close(value_and_gradient(loss, *wide), dense, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(value_and_gradient(loss, *narrow), dense_narrow, rtol=1e-6, atol=1e-6)


def test_an_anchor_without_others_is_minus_infinity_with_zero_gradient(tiled):
    tiled()
    z = torch.randn(1, 2, 4, requires_grad=True)
    mass = Pairs(z, temperature=0.5, anchor_views=2).log_sum_exp(other_image)
    assert (mass == -torch.inf).all()
    (gradient,) = torch.autograd.grad(mass.exp().sum(), z)
    assert (gradient == 0).all()


@pytest.mark.parametrize("views", [2, 3])
@pytest.mark.parametrize(("group", "name"), TERMS)
def test_shares_sum_to_the_whole(group, name, views, tiled):
    z, label, bias = inputs(12, views)
    loss = prepared(make(f"{group}/{name}"), label, bias)
    whole = value_and_gradient(loss, z, label, bias)
    for in_tiles in (False, True):
        if in_tiles:
            tiled()
        free = z.clone().requires_grad_()
        shares = [loss(free, label, bias, Shard(rank, 3)) for rank in range(3)]
        value = torch.stack(shares).sum()
        torch.testing.assert_close((value.detach(), torch.autograd.grad(value, free)[0]), whole, rtol=1e-10, atol=1e-12)
