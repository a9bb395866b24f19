"""The log-space functions of Pairs, and whom its relations match."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from contrastive.pairs.pairs import Pairs, log_sub_exp, masked_log_sum_exp
from contrastive.pairs.relations import conflicting_positive, same_class

finite = st.floats(-50, 50)


@given(finite, st.floats(1e-6, 50))
def test_log_sub_exp(y, gap):
    x = torch.tensor(y + gap, dtype=torch.float64)
    expected = math.log(math.expm1(gap)) + y if gap < 30 else y + gap
    assert log_sub_exp(x, torch.tensor(y, dtype=torch.float64)).item() == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert log_sub_exp(torch.tensor(y), x.float()).item() == -math.inf


def test_masked_log_sum_exp_of_nothing():
    x = torch.randn(3, 4, requires_grad=True)
    mask = torch.tensor([[True] * 4, [False] * 4, [True, False, False, False]])
    value = masked_log_sum_exp(x, mask)
    assert value[1] == -math.inf
    torch.testing.assert_close(value[[0, 2]], torch.stack([x[0].logsumexp(0), x[2, 0]]))
    value[[0, 2]].sum().backward()
    assert x.grad.isfinite().all()
    assert (x.grad[1] == 0).all()


def test_unknown_labels_and_biases_match_nothing():
    z = torch.randn(4, 2, 5)
    assert Pairs(z, temperature=0.5, anchor_views=2).count(same_class).sum() == 0
    label = torch.tensor([0, 0, -1, -1])
    pairs = Pairs(z, temperature=0.5, anchor_views=2, label=label, bias=torch.tensor([0, 1, 0, 1]))
    assert pairs.count(same_class).tolist() == [2, 2, 2, 2, 0, 0, 0, 0]
    assert pairs.count(conflicting_positive).tolist() == [2, 2, 2, 2, 0, 0, 0, 0]
