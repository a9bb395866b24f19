"""Every YAML of a loss passes `check_loss`, and in tiles and shards has one value; `check_loss` finds broken losses."""

import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive.errors import ConfigError
from contrastive.experiment.make import make
from contrastive.loss.base import Loss, SelfSupervisedLoss, SupervisedContrastiveLoss
from contrastive.pairs.pairs import Pairs
from contrastive.pairs.relations import other_image
from contrastive.testing import check_loss
from contrastive.testing.loss import in_tiles, inputs, prepared
from contrastive.types import Shard
from tests.helpers import TERMS


@pytest.mark.parametrize(("group", "name"), TERMS)
def test_every_loss_and_regularizer_passes_check_loss(group, name):
    options = {"n_directions": 96} if name in ("lejepa", "visreg") else {}  # which slices of anchors share
    facts = check_loss(make(f"{group}/{name}", **options))
    known = {"nt_xent": True, "debiased_pos": False, "barlow": None}
    assert facts.shift_invariant is known.get(name, facts.shift_invariant)
    assert not facts.shift_invariant or facts.push in (None, pytest.approx(1))


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("name", ["nt_xent", "debiased_neg", "debiased_pos"])
def test_grouped_positives_and_oracles_pass_check_loss(name, drop):
    check_loss(make(f"loss/{name}", aggregation="pos_grouping", drop_false_negatives=drop))


@pytest.mark.parametrize(("group", "name"), TERMS)
def test_two_views_may_be_two_arguments(group, name):
    loss = make(f"{group}/{name}")
    z, label, bias = inputs(12, 2)
    loss = prepared(loss, label, bias)
    z0, z1 = z.unbind(1)
    half = slice(0, 6)
    assert loss(z0, z1, label, bias) == loss(z, label, bias)
    assert loss(z0, z1, label=label, bias=bias) == loss(z, label, bias=bias)
    assert loss(z0, z1, label, bias=bias, anchors=half) == loss(z, label, bias, half)
    assert in_tiles(loss)(z0, z1, label, bias) == in_tiles(loss)(z, label, bias)
    if not (loss.needs_label or loss.needs_bias):
        assert loss(z0, z1) == loss(z)


def test_far_more_views_than_images_are_warned_of():
    z0, z1 = torch.randn(2, 8, 4).unbind()
    label = torch.zeros(2).long()
    with pytest.warns(UserWarning, match=r"2 images of 8 views each: for two views try loss\(z0, z1\)") as caught:
        make("loss/nt_xent")(torch.stack([z0, z1]))
    assert caught[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        make("loss/nt_xent")(z0, z1)
        make("loss/nt_xent")(z0[:1], z1[:1])  # one image has no negatives
        make("loss/nt_xent")(torch.randn(4, 5, 6))  # many positives of few images
        make("loss/supcon")(torch.stack([z0, z1]), label)  # compares images, of any number of views


class Broken(SelfSupervisedLoss):
    """NT-Xent outside log space, which overflows at low temperatures."""

    def per_anchor(self, pairs):
        return -(pairs.positive_logits[:, 0].exp() / pairs.logits.exp().sum(1)).log()


class Asymmetric(SelfSupervisedLoss):
    exempt_from = {"image order": "later images only", "view order": "later images only"}

    def per_anchor(self, pairs):
        later = pairs.log_sum_exp(lambda anchor, candidate: anchor.row <= candidate.row)
        return F.softplus(later - pairs.positive_logits[:, 0])


class WrongMean(SelfSupervisedLoss):
    """Divides by all anchors even when it is asked for a slice of them."""

    def compute(self, z, label, bias, anchors):
        (pairs,) = self.pairs(z, label, bias, anchors)
        return self.per_anchor(pairs).sum() / (2 * len(z))

    def per_anchor(self, pairs):
        return F.softplus(pairs.log_sum_exp(other_image) - pairs.positive_logits[:, 0])


def of_anchors(method: Callable[..., Any]) -> Loss:
    return type("Written", (SupervisedContrastiveLoss,), {"per_anchor": lambda self, pairs: method(pairs)})()


def of_batch(method: Callable[..., Any]) -> Loss:
    return type("Several", (Loss,), {"compute": lambda self, z, label, bias, anchors: method(z)})()


@pytest.mark.parametrize(
    ("loss", "error", "said"),
    [
        (Broken(), AssertionError, r"the (loss|gradient) is"),
        (of_batch(lambda z: F.normalize(z, dim=-1)[0].square().sum() * z[0, 0, 0]), AssertionError, "image order"),
        (Asymmetric(), AssertionError, "symmetric"),
        (WrongMean(), AssertionError, "slices of anchors"),
        (Broken, AssertionError, r"takes a loss that is built, not .*: try check_loss\(MyLoss\(\)\)"),
        (of_batch(lambda z: z.sum((1, 2))), ConfigError, r"must return a tensor \(\), got \(12,\): try \.mean\(\)"),
        (of_anchors(lambda pairs: pairs.positive_logits[0, 0].item()), ConfigError, r"\(24,\).*got float: try "),
        (of_anchors(lambda pairs: pairs.positive_logits), ConfigError, r"= \(24,\).*got \(24, 1\): try "),
    ],
)
def test_check_loss_finds_broken_losses(loss, error, said):
    with pytest.raises(error, match=said):
        check_loss(loss)


@given(b=st.integers(2, 20), t=st.sampled_from([0.05, 0.5, 2.0]), seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=15, derandomize=True, database=None)
def test_limits(b, t, seed):
    rng = torch.Generator().manual_seed(seed)
    z, label = torch.randn(b, 2, 5, generator=rng, dtype=torch.float64), torch.randint(0, 3, (b,), generator=rng)
    alone = torch.arange(b)  # the other view is the only positive
    loss, close = partial(loss_of, temperature=t), torch.testing.assert_close
    plain = loss("nt_xent")(z)
    assert plain >= 0
    close(loss("debiased_neg", tau_plus=0)(z), plain)
    close(loss("hard_negative", tau_plus=0, beta=0)(z), plain)
    close(loss("hard_negative", beta=0)(z), loss("debiased_neg")(z))
    close(loss("combination", alpha=1.0)(z), loss("debiased_neg")(z))
    close(loss("combination", alpha=0.0)(z), loss("debiased_pos")(z))
    close(loss("eps_supcon", epsilon=0)(z, label), loss("supcon")(z, label))
    close(loss("eps_supinfonce", epsilon=0)(z, alone), plain)
    close(loss("supcon")(z, alone), plain)
    assert loss("supcon", form="in")(z, label) <= loss("supcon")(z, label)
    assert loss("eps_supinfonce", epsilon=0.25)(z, torch.zeros(b).long()).item() == pytest.approx(-0.25)  # one class


@cache
def loss_of(name: str, **arguments: Any) -> Loss:
    return make(f"loss/{name}", **arguments)


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
