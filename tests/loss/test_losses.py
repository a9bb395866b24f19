"""All golden values; the losses of the debiased papers in their limits; what losses refuse; log space and relations."""

import math
import re
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from contrastive.errors import ConfigError
from contrastive.experiment.make import make
from contrastive.loss.group_dro import GroupDRO
from contrastive.loss.nt_xent import NTXent
from contrastive.loss.supcon import SupCon
from contrastive.pairs.pairs import Pairs, log_sub_exp, masked_log_sum_exp
from contrastive.pairs.relations import conflicting_positive, same_class
from tests.golden import check


def embeddings(b: int, v: int, d: int = 8, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(b, v, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def test_every_golden_case(golden):
    verdicts = [(case, *check(case)) for case in golden["cases"]]
    assert not [(case["id"], case["loss"], details) for case, verdict, details in verdicts if verdict == "failed"]
    assert Counter(verdict for _, verdict, _ in verdicts) == {"passed": 350, "out of domain": 2}


def test_the_checker_fails_on_a_wrong_number(golden):
    case = golden["cases"][0]
    assert check({**case, "value": case["value"] * (1 + 1e-8)})[0] == "failed"


@pytest.mark.parametrize(("with_self", "least"), [(True, 0.05), (False, 0.0527)])
def test_debiased_positives_refuse_a_tau_plus_whose_numerator_can_be_negative(with_self, least):
    make("loss/debiased_pos", tau_plus=least, with_self=with_self).check_config(batch_size=10)
    with pytest.raises(ConfigError, match=f"tau_plus={least}$"):
        make("loss/debiased_pos", tau_plus=least - 0.001, with_self=with_self).check_config(batch_size=10)


def test_a_batch_without_negatives_costs_nothing():
    z, one_class = embeddings(16, 2), torch.zeros(16).long()
    for name in ("nt_xent", "debiased_neg", "debiased_pos"):
        assert make(f"loss/{name}")(embeddings(1, 2)).item() == 0
        assert make(f"loss/{name}", drop_false_negatives=True)(z, one_class).isfinite()
    assert make("loss/nt_xent", drop_false_negatives=True)(z, one_class).item() == 0


def test_an_estimate_above_zero_and_below_its_floor_is_reported_too():
    x = torch.tensor([1.0, 0.0], dtype=torch.float64)
    opposite = torch.stack([torch.stack([x, x]), torch.stack([-x, -x])])
    assert 0 < math.exp(-2) - 0.01 * math.exp(2) < 0.99 * math.exp(-2)
    negatives = make("loss/debiased_neg", temperature=0.5, tau_plus=0.01)
    assert negatives.diagnostics(opposite, None, None)["pairs/clamped"] == 1
    one_flipped = torch.stack([torch.stack([x, -x]), torch.stack([x, x])])
    tau_plus = 0.2475  # for the first view of the first image:
    assert 0 < (4 * tau_plus - 2) * 2 * math.exp(2) + 2 * (math.exp(-2) + math.exp(2)) < 8 * tau_plus * math.exp(-2)
    positives = make("loss/debiased_pos", temperature=0.5, tau_plus=tau_plus)
    assert positives.diagnostics(one_flipped, None, None)["pairs/clamped"] == 0.25


def test_a_learned_temperature_is_set_on_the_finished_loss() -> None:
    with pytest.raises(ConfigError, match=r"must be a number at first, got Parameter: try loss\.temperature = t on"):
        NTXent(temperature=torch.nn.Parameter(torch.tensor(0.1)))


def test_what_a_loss_cannot_take_is_refused_with_a_way_out():
    z, label = embeddings(4, 2), torch.arange(4)
    views = re.escape("try loss(z0, z1")
    lnl, released = make("regularizer/lnl"), {"aggregation": "pos_grouping", "semantics": "released"}
    for loss, arguments, said in (
        (NTXent(), (z[:, 0],), rf"z must be \(B, V, D\).*{views}"),
        (NTXent(), (z, z), views),
        (SupCon(), (z, label.float()), r"whole numbers.*try label\.long\(\)"),
        (SupCon(), (z, label.repeat_interleave(2)), "one label for each image"),
        (make("loss/large_margin_softmax"), (z, label), "set_weight"),
        (lnl, (z, label, label), "prepare"),
        (SupCon(), (z, ["cat", "dog", "cat", "owl"]), r"got list: try .* label=torch\.tensor"),
        (NTXent(), (z[:, 0].numpy(), z[:, 1].numpy()), r"got ndarray: try loss\(torch\.tensor\(z0\), "),
        (NTXent(), (z[:, :1],), r"compares 2 views of an image, got 1: try loss\(z0, z1\)$"),
        (NTXent(drop_false_negatives=True), (z,), r"needs the label of every image: try loss\(z0, z1, label=label\)$"),
        (GroupDRO(), (z, label), r"needs the bias label of every image: try loss\(z0, z1, bias=bias\)$"),
        (NTXent(aggregation="pos_grouping"), (embeddings(4, 3),), "try loss.aggregation=loss_combination$"),
        (make("loss/debiased_pos", **released), (embeddings(4, 3),), "try loss.semantics=paper, or loss.aggregation="),
    ):
        with pytest.raises(ConfigError, match=said):
            loss(*arguments)
    with pytest.raises(ConfigError, match="batch_size=5"):
        make("loss/debiased_pos", tau_plus=0.1).check_config(batch_size=4)


@given(st.floats(-50, 50), st.floats(1e-6, 50))
def test_log_sub_exp(y, gap):
    x = torch.tensor(y + gap, dtype=torch.float64)
    expected = math.log(math.expm1(gap)) + y if gap < 30 else y + gap
    assert log_sub_exp(x, torch.tensor(y, dtype=torch.float64)).item() == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert log_sub_exp(torch.tensor(y), x.float()).item() == -math.inf


def test_masked_log_sum_exp_of_nothing():
    x = torch.randn(3, 4, requires_grad=True)
    value = masked_log_sum_exp(x, torch.tensor([[True] * 4, [False] * 4, [True, False, False, False]]))
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
