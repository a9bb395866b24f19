"""The audit of biased data, by hand and in whole runs."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from contrastive.evaluator.base import FeatureSets, Scores
from contrastive.evaluator.bias_audit import BiasAudit, group_accuracy, listed_groups, majority_bias, pairwise_cosines
from contrastive.evaluator.linear import Standardizer
from contrastive.experiment.summary import finished
from contrastive.types import Features
from tests.helpers import blobs, check_resumes, feature_sets, logged_lines

SMALL = [
    "dataset=biased_digits", "dataset.size=8", "dataset.rho=0.9", "encoder.width=2", "encoder.kernel_size=3",
    "epochs=2", "batch_size=256", "evaluator.linear.max_iter=5", "device=cpu",
]  # fmt: skip
GROUPS = {
    "top1", "aligned_top1", "conflicting_top1", "group_mean_top1", "worst_group_top1",
    "cell_mean_top1", "worst_cell_top1",
}  # fmt: skip


def test_group_accuracy_by_hand():
    label, bias = torch.tensor([0, 0, 0, 1, 1, 1]), torch.tensor([0, 0, 1, 1, 1, 0])
    majority = majority_bias(Features(torch.zeros(6, 1), label, bias), 2, 2)
    assert majority.tolist() == [0, 1]
    accuracy = group_accuracy(torch.tensor([0, 1, 0, 1, 1, 0]), label, bias, majority)
    over_groups = {"group_mean_top1": 62.5, "worst_group_top1": 0, "cell_mean_top1": 62.5, "worst_cell_top1": 0}
    assert accuracy == pytest.approx({"top1": 400 / 6, "aligned_top1": 75, "conflicting_top1": 50, **over_groups})
    no_conflict = group_accuracy(label[2:4], label[2:4], label[2:4], majority)
    assert "conflicting_top1" not in no_conflict
    assert no_conflict["aligned_top1"] == 100


def test_groups_by_hand():
    label, bias = torch.tensor([1, 0, 0, 1, 1, 1]), torch.tensor([1, 0, 2, 1, 1, 0])
    guesses = {"knn": torch.tensor([1, 0, 1, 1, 0, 0]), "linear": label}
    listed = listed_groups(guesses, Features(torch.zeros(6, 1), label, bias), ("cat", "dog"), ("day", "night"))
    assert listed == [
        {"class": "cat", "bias": "day", "n": 1, "top1": {"knn": 100, "linear": 100}},
        {"class": "cat", "bias": "2", "n": 1, "top1": {"knn": 0, "linear": 100}},  # a bias without a name
        {"class": "dog", "bias": "day", "n": 1, "top1": {"knn": 0, "linear": 100}},
        {"class": "dog", "bias": "night", "n": 3, "top1": {"knn": pytest.approx(200 / 3), "linear": 100}},
    ]


def test_kinds_of_pairs_by_hand():
    h = torch.tensor([[1.0, 0], [0, 1], [1, 0], [-1, 0]])
    label, bias = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 0])
    cosines = {key: sorted(value.tolist()) for key, value in pairwise_cosines(h, label, bias).items()}
    assert cosines == {
        "positive_aligned": [-1],
        "positive_conflicting": [0],
        "negative_aligned": [-1, 1],
        "negative_conflicting": [0, 0],
    }


def test_a_bias_that_is_in_the_features_is_read_from_them():
    assert BiasAudit()(feature_sets(blobs(20, 0), blobs(8, 1), blobs(8, 2))) == Scores()  # no bias, no audit

    for visible, low, high in ((True, 90, 100), (False, 0, 60)):
        train, val, test = (biased(n, visible=visible) for n in (100, 60, 200))
        lies = Features(train.h, train.label, (train.bias + 1) % 3)  # it is read by a fit on the validation images
        sets = FeatureSets(bank=lies, train=lies, val=val, test=test, n_classes=4, n_biases=3)
        assert low <= BiasAudit()(sets).audit["bias_top1"] <= high


def test_nothing_is_reported_where_no_image_conflicts_and_one_image_to_learn_from_is_enough():
    images = biased(40, visible=True)
    usual = Features(images.h, images.label, images.label % 3)
    one = Features(*(part[:1] for part in (usual.h, usual.label, usual.bias)))
    guess = {"linear": usual.label}
    sets = FeatureSets(bank=usual, train=usual, val=one, test=usual, n_classes=4, n_biases=3, predictions=guess)
    audit = BiasAudit(metric="conflicting_top1")(sets).audit
    assert "reported" not in audit and audit["linear"]["aligned_top1"] == 100
    assert Standardizer(one.h)(one.h).eq(0).all()


def test_the_training_images_say_which_bias_is_usual():
    train, val, test = (Features(torch.randn(n, 4), torch.arange(n) % 2, bias) for n, bias in (
        (40, torch.arange(40) % 2), (60, torch.randint(0, 2, (60,))), (40, (torch.arange(40) % 2 == 0).long())
    ))  # fmt: skip
    guess = {"linear": test.label}
    sets = FeatureSets(bank=train, train=train, val=val, test=test, n_classes=2, n_biases=2, predictions=guess)
    audit = BiasAudit()(sets).audit["linear"]
    assert audit["conflicting_top1"] == 100
    assert "aligned_top1" not in audit  # every test image has the other bias


def biased(n: int, *, visible: bool = False) -> Features:
    """Features that hold no class, and the bias only where it is visible."""
    rng = torch.Generator().manual_seed(n)
    h, bias = torch.randn(n, 4, generator=rng), torch.randint(0, 3, (n,), generator=rng)
    return Features(h + (5 * torch.eye(4)[bias] if visible else 0), torch.arange(n) % 4, bias)


def test_the_reported_figure_names_its_read_out_and_its_metric():
    train, val, test = (biased(n) for n in (100, 60, 200))
    guess = {
        "linear": test.label,
        "online_probe_best_test": torch.where(test.bias == 0, test.label, (test.label + 1) % 4),
    }
    sets = FeatureSets(bank=train, train=train, val=val, test=test, n_classes=4, n_biases=3, predictions=guess)
    audit = BiasAudit(reported="online_probe_best_test", metric="cell_mean_top1")(sets).audit
    assert audit["reported"]["read_out"] == "online_probe_best_test"
    assert audit["reported"]["accuracy"] == audit["online_probe_best_test"]["group_mean_top1"]
    assert audit["reported"]["accuracy"] == pytest.approx(100 / 3)
    assert audit["linear"]["top1"] == 100
    assert BiasAudit()(sets).audit["reported"]["read_out"] == "linear"
    both = replace(sets, predictions={**guess, "classifier": test.label})
    assert BiasAudit()(both).audit["reported"]["read_out"] == "classifier"  # that of the loss
    assert "best test epoch, as published" in BiasAudit(reported="online_probe_best_test").protocol


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["loss=cross_entropy"],
        ["loss=eps_supinfonce", "regularizer=fairkl"],
        ["loss=bias_contrastive", "regularizer=bias_balanced", "sampler=bias_balanced"],
    ],
)
def test_biased_runs_are_audited_and_resume_exactly(composed, tmp_path, words):
    settings = composed(*SMALL, *words)
    whole = check_resumes(7, settings, tmp_path)
    has_classifier = "cross_entropy" in words[0] or "bias_balanced" in words[1]
    read_outs = {"linear", "classifier"} if has_classifier else {"linear"}
    assert read_outs <= set(whole["audit"])
    read_out = "classifier" if has_classifier else "linear"
    groups = whole["audit"][read_out]
    assert whole["audit"]["reported"] == {"read_out": read_out, "metric": "top1", "accuracy": groups["top1"], **groups}
    assert all(set(whole["audit"][name]) == GROUPS for name in read_outs)
    assert set(whole["audit"]["similarity"]) == {
        f"{sign}_{kind}" for sign in ("positive", "negative") for kind in ("aligned", "conflicting")
    }
    assert any("bias/conflicting_pairs" in line for line in logged_lines(tmp_path / "whole"))


@pytest.mark.parametrize(("read_out", "said"), [
    ("online_probe_best_test", "reported, best test epoch: 50.00 (top1)"), ("classifier", "reported: 50.00 (top1)")
])  # fmt: skip
def test_a_run_says_that_its_reported_figure_was_selected_on_test(read_out, said):
    reported = {"read_out": read_out, "metric": "top1", "accuracy": 50.0}
    result = {"test": {}, "untrained": {}, "audit": {"reported": reported, "bias_top1": 90.0}}
    assert f"{said} by {read_out}" in finished(Path("run"), result)
