"""The tiled path against the dense one, and slices of anchors against the whole batch."""

import pytest
import torch

from contrastive.experiment.make import make
from contrastive.loss.base import Loss, SelfSupervisedLoss, SupervisedContrastiveLoss
from contrastive.pairs.pairs import Pairs
from contrastive.testing.loss import in_tiles, inputs, prepared
from contrastive.types import Shard
from tests.helpers import TERMS

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
def no_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test that asks for the whole matrix of logits of tiled pairs."""
    dense_logits = Pairs.logits.fget

    def refuse(pairs: Pairs) -> torch.Tensor:
        assert pairs.dense, "the whole matrix was asked for"
        return dense_logits(pairs)

    monkeypatch.setattr(Pairs, "logits", property(refuse))


@pytest.mark.usefixtures("no_matrix")
@pytest.mark.parametrize("name", PER_ANCHOR)
@pytest.mark.parametrize("temperature", [0.01, 0.1, 0.5])  # tiles are safe in float32 from 0.025 on
def test_tiles_equal_the_matrix(name, temperature):
    z, label, bias = inputs(11, 2)
    loss = prepared(make(f"loss/{name}"), label, bias)
    loss.temperature = temperature
    tiled = in_tiles(loss)
    wide, narrow = (z, label, bias), (z.float(), label, bias)
    torch.testing.assert_close(
        value_and_gradient(tiled, *wide), value_and_gradient(loss, *wide), rtol=1e-10, atol=1e-12
    )
    rounding = 5e-5 if name in ("rince", "sigmoid") else 1e-6  # their values are in the thousands at t = 0.01
    torch.testing.assert_close(
        value_and_gradient(tiled.float(), *narrow),
        value_and_gradient(loss.float(), *narrow),
        rtol=rounding,
        atol=5e-6,
    )


@pytest.mark.usefixtures("no_matrix")
@pytest.mark.parametrize("views", [2, 3])
@pytest.mark.parametrize(("group", "name"), TERMS)
def test_the_mean_over_shards_is_the_loss_of_the_whole_batch(group, name, views):
    term = make(f"{group}/{name}")
    z, label, bias = inputs(12, views)
    loss = prepared(term, label, bias)
    whole = value_and_gradient(loss, z, label, bias)
    for variant in (loss, in_tiles(loss)):
        free = z.clone().requires_grad_()
        values = [variant(free, label, bias, Shard(rank, 3).of(12)) for rank in range(3)]
        mean = torch.stack(values).mean()
        torch.testing.assert_close((mean.detach(), torch.autograd.grad(mean, free)[0]), whole, rtol=1e-10, atol=1e-12)
