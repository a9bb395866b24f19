"""The tiled path against the dense one, and slices of anchors against the whole batch."""

from collections.abc import Callable
from functools import partial

import pytest
import torch

from contrastive.experiment.make import make
from contrastive.loss.base import Loss
from contrastive.pairs.pairs import Pairs
from contrastive.testing.loss import in_tiles, inputs, prepared
from contrastive.types import Shard
from tests.helpers import TERMS


def value_and_gradient(loss: Callable[..., torch.Tensor], *batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    z, label, bias = batch
    z = z.clone().requires_grad_()
    value = loss(z, label, bias)
    return value.detach(), torch.autograd.grad(value, z)[0]


def mean_over_shards(loss: Loss, *batch: torch.Tensor) -> torch.Tensor:
    return torch.stack([loss(*batch, Shard(rank, 3).of(12)) for rank in range(3)]).mean()


@pytest.fixture
def no_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test that asks for the whole matrix of logits of tiled pairs."""
    dense_logits = Pairs.logits.fget

    def refuse(pairs: Pairs) -> torch.Tensor:
        assert pairs.dense, "the whole matrix was asked for"
        return dense_logits(pairs)

    monkeypatch.setattr(Pairs, "logits", property(refuse))


@pytest.mark.usefixtures("no_matrix")
@pytest.mark.parametrize(("views", "temperature"), [(2, 0.01), (2, 0.1), (3, 0.5)])  # safe in float32 from 0.025 on
@pytest.mark.parametrize(("group", "name"), TERMS)
def test_tiles_and_shards_of_anchors_give_the_value_of_the_matrix(group, name, views, temperature):
    z, label, bias = inputs(12, views)
    loss = prepared(make(f"{group}/{name}"), label, bias)
    loss.temperature = temperature
    whole = value_and_gradient(loss, z, label, bias)
    for variant in (loss, in_tiles(loss)):
        torch.testing.assert_close(value_and_gradient(variant, z, label, bias), whole, rtol=1e-10, atol=1e-12)
        mean = value_and_gradient(partial(mean_over_shards, variant), z, label, bias)
        torch.testing.assert_close(mean, whole, rtol=1e-10, atol=1e-12)
    narrow = [value_and_gradient(each.float(), z.float(), label, bias) for each in (in_tiles(loss), loss)]
    rounding = 5e-5 if name in ("rince", "sigmoid") else 1e-6  # their values are in the thousands at t = 0.01
    torch.testing.assert_close(*narrow, rtol=rounding, atol=5e-6)
