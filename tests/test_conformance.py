"""Every YAML under configs/loss and configs/regularizer passes `check_loss`, and `check_loss` finds broken losses."""

from functools import cache, partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive.experiment.make import make
from contrastive.loss.base import Loss, SelfSupervisedLoss
from contrastive.pairs.relations import other_image
from contrastive.testing import check_loss
from tests.helpers import TERMS


@pytest.mark.parametrize(("group", "name"), TERMS)
def test_every_loss_and_regularizer_passes_check_loss(group, name):
    check_loss(make(f"{group}/{name}"))


class Broken(SelfSupervisedLoss):
    """NT-Xent outside log space, which overflows at low temperatures."""

    def per_anchor(self, pairs):
        e = pairs.logits.exp()
        return -(pairs.positive_logits[:, 0].exp() / e.sum(1)).log()


class Asymmetric(SelfSupervisedLoss):
    exempt_from = {"image order": "later images only", "view order": "later images only"}

    def per_anchor(self, pairs):
        later = pairs.log_sum_exp(lambda anchor, candidate: anchor.row <= candidate.row)
        return F.softplus(later - pairs.positive_logits[:, 0])


class OrderMatters(Loss):
    def compute(self, z, label, bias, anchors):
        return F.normalize(z, dim=-1)[0].square().sum() * z[0, 0, 0]


class WrongMean(SelfSupervisedLoss):
    """Divides by all anchors even when it is asked for a slice of them."""

    def compute(self, z, label, bias, anchors):
        (pairs,) = self.pairs(z, label, bias, anchors)
        return self.per_anchor(pairs).sum() / (2 * len(z))

    def per_anchor(self, pairs):
        return F.softplus(pairs.log_sum_exp(other_image) - pairs.positive_logits[:, 0])


def test_check_loss_finds_broken_losses():
    with pytest.raises(AssertionError, match=r"the (loss|gradient) is"):
        check_loss(Broken())
    with pytest.raises(AssertionError, match="image order"):
        check_loss(OrderMatters())
    with pytest.raises(AssertionError, match="symmetric"):
        check_loss(Asymmetric())
    with pytest.raises(AssertionError, match="slices of anchors"):
        check_loss(WrongMean())


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
    same = torch.ones_like(z)
    for name in ("nt_xent", "debiased_neg", "hard_negative"):
        close(loss(name)(same), torch.tensor(2 * b - 1).double().log())


@cache
def loss_of(name: str, **arguments: Any) -> Loss:
    return make(f"loss/{name}", **arguments)


def test_one_class_alone():
    z = torch.randn(12, 2, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    label, one = torch.arange(12) % 3, torch.zeros(12).long()
    assert make("loss/eps_supinfonce", epsilon=0.25)(z, one).item() == pytest.approx(-0.25)
    for semantics in ("paper", "running"):
        assert make("regularizer/fairkl", semantics=semantics)(z, label, one) == 0  # no conflicting pair
