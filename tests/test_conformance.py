"""Every YAML under configs/loss and configs/regularizer passes `check_loss`, and `check_loss` finds broken losses."""

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


@pytest.mark.slow
@given(b=st.integers(2, 20), t=st.floats(0.05, 2), seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=25)
def test_limits_hold_for_any_batch(b, t, seed):
    z = torch.randn(b, 2, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    label = torch.randint(0, 3, (b,), generator=torch.Generator().manual_seed(seed))
    arguments = {"temperature": t}
    plain = make("loss/nt_xent", **arguments)(z)
    close = torch.testing.assert_close
    close(make("loss/debiased_neg", tau_plus=0, **arguments)(z), plain)
    close(make("loss/hard_negative", tau_plus=0, beta=0, **arguments)(z), plain)
    close(make("loss/hard_negative", beta=0, **arguments)(z), make("loss/debiased_neg", **arguments)(z))
    close(make("loss/eps_supcon", epsilon=0, **arguments)(z, label), make("loss/supcon", **arguments)(z, label))
    alone = torch.arange(b)
    close(make("loss/eps_supinfonce", epsilon=0, **arguments)(z, alone), plain)
    same = torch.ones_like(z)
    for name in ("nt_xent", "debiased_neg", "hard_negative"):
        close(make(f"loss/{name}", **arguments)(same), torch.tensor(2 * b - 1).double().log())
    assert make("loss/supcon", form="in", **arguments)(z, label) <= make("loss/supcon", **arguments)(z, label)
    assert plain >= 0


def test_limits():
    z = torch.randn(12, 2, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    label = torch.arange(12) % 3
    close = torch.testing.assert_close
    close(make("loss/hard_negative", beta=0.0)(z), make("loss/debiased_neg")(z))
    close(make("loss/combination", alpha=1.0)(z), make("loss/debiased_neg")(z))
    close(make("loss/combination", alpha=0.0)(z), make("loss/debiased_pos")(z))
    close(make("loss/eps_supcon")(z, label), make("loss/supcon")(z, label))
    assert make("loss/supcon", form="in")(z, label) <= make("loss/supcon")(z, label)
    alone = torch.arange(12)  # the other view is the only positive
    close(make("loss/supcon", temperature=0.5)(z, alone), make("loss/nt_xent", temperature=0.5)(z))
    one = torch.zeros(12).long()
    assert make("loss/eps_supinfonce", epsilon=0.25)(z, one).item() == pytest.approx(-0.25)
    for semantics in ("paper", "running"):
        assert make("regularizer/fairkl", semantics=semantics)(z, label, one) == 0  # no conflicting pair
