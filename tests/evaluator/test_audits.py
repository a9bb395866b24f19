"""The audits by bias and by class: by hand, in whole runs, and in every table that a user reads."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import mean

import pytest
import torch

import contrastive
from contrastive.cli.report import main
from contrastive.dataset.biased_digits import biased_digits
from contrastive.errors import ConfigError
from contrastive.evaluator.base import FeatureSets, Scores, evaluate
from contrastive.evaluator.bias_audit import BiasAudit, group_accuracy, listed_groups, majority_bias, pairwise_cosines
from contrastive.evaluator.class_audit import ClassAudit
from contrastive.evaluator.knn import KNN
from contrastive.evaluator.linear import Standardizer
from contrastive.experiment.run import run_experiment
from contrastive.experiment.summary import finished
from contrastive.run import figures
from contrastive.types import Features
from tests.helpers import BARE, blobs, check_resumes, compose_settings, feature_sets, logged_lines

SMALL = [
    "dataset=biased_digits", "dataset.size=8", "dataset.rho=0.9", "encoder.width=2", "encoder.kernel_size=3",
    "epochs=2", "batch_size=256", "evaluator.linear.max_iter=5", "device=cpu",
]  # fmt: skip


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
    assert listed_groups(guesses, Features(torch.zeros(6, 1), label, bias), ("cat", "dog"), ("day", "night")) == [
        {"class": "cat", "bias": "day", "n": 1, "top1": {"knn": 100, "linear": 100}},
        {"class": "cat", "bias": "2", "n": 1, "top1": {"knn": 0, "linear": 100}},  # a bias without a name
        {"class": "dog", "bias": "day", "n": 1, "top1": {"knn": 0, "linear": 100}},
        {"class": "dog", "bias": "night", "n": 3, "top1": {"knn": pytest.approx(200 / 3), "linear": 100}},
    ]


def test_kinds_of_pairs_by_hand():
    h = torch.tensor([[1.0, 0], [0, 1], [1, 0], [-1, 0]])
    label, bias = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 0])
    assert {key: sorted(value.tolist()) for key, value in pairwise_cosines(h, label, bias).items()} == {
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
    whole = check_resumes(7, composed(*SMALL, *words), tmp_path)
    has_classifier = "cross_entropy" in words[0] or "bias_balanced" in words[1]
    assert "linear" in whole["audit"]
    read_out = "classifier" if has_classifier else "linear"
    groups = whole["audit"][read_out]
    assert whole["audit"]["reported"] == {"read_out": read_out, "metric": "top1", "accuracy": groups["top1"], **groups}
    assert len(whole["audit"]["similarity"]) == 4
    assert any("bias/conflicting_pairs" in line for line in logged_lines(tmp_path / "whole"))


@pytest.mark.parametrize(("read_out", "said"), [
    ("online_probe_best_test", "reported, best test epoch: 50.00 (top1)"), ("classifier", "reported: 50.00 (top1)")
])  # fmt: skip
def test_a_run_says_that_its_reported_figure_was_selected_on_test(read_out, said):
    reported = {"read_out": read_out, "metric": "top1", "accuracy": 50.0}
    result = {"test": {}, "untrained": {}, "audit": {"reported": reported, "bias_top1": 90.0}}
    assert f"{said} by {read_out}" in finished(Path("run"), result)


@pytest.mark.slow
def test_every_group_is_recorded_by_name_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["dataset=biased_digits", "epochs=1", "evaluator=[knn,linear,bias_audit]", "evaluator.linear.max_iter=5"]
    result = run_experiment(compose_settings(*BARE, *words), tmp_path / "run")
    (line,) = contrastive.runs(tmp_path / "run").to_dict("records")
    groups, data = result["audit"]["groups"], biased_digits(size=8)
    pairs = zip(data.test.label.tolist(), data.test.bias.tolist(), strict=True)
    n = Counter((data.classes[y], data.biases[b]) for y, b in pairs)
    assert {(group["class"], group["bias"]): group["n"] for group in groups} == n
    for name in ("knn", "linear"):
        accuracies, audit = [group["top1"][name] for group in groups], result["audit"][name]
        assert audit["worst_group_top1"] == audit["worst_cell_top1"] == pytest.approx(min(accuracies))
        assert audit["group_mean_top1"] == audit["cell_mean_top1"] == pytest.approx(mean(accuracies))
        weighted = sum(group["n"] * group["top1"][name] for group in groups) / sum(n.values())
        assert weighted == pytest.approx(result["test"][f"{name}_top1"])
        for key in ("worst_group", "group_mean", "aligned", "conflicting"):
            assert line[f"{name}_{key}_top1"] == audit[f"{key}_top1"]
        for group in groups:
            assert line[f"{name}_top1/{group['class']}/{group['bias']}"] == group["top1"][name]
    asked = ["linear_conflicting_top1", "knn_top1/3/red"]
    for columns, typed in ((["knn_top1", "knn_worst_group_top1"], []), (asked, ["--metric", *asked])):
        capsys.readouterr()
        assert main([str(tmp_path / "run"), *typed]) == 0
        table = [text.split("|")[2:4] for text in capsys.readouterr().out.splitlines() if text.startswith("|")]
        header, _, row = ([cell.strip() for cell in cells] for cells in table[:3])
        assert header == columns
        assert [cell.split()[0] for cell in row] == [f"{line[column]:.2f}" for column in columns]


def test_a_run_prints_its_groups_by_name_and_of_many_only_the_summary():
    groups = [{"class": str(i), "bias": "red", "n": 4, "top1": {"knn": 1.0 * i}} for i in range(100)]
    result = {"test": {"knn_top1": 80.0}, "untrained": {}, "audit": {"bias_top1": 90.0, "groups": groups[:4]}}
    assert ["3,", "red", "4", "3.00"] in [line.split() for line in finished(Path("run"), result).splitlines()]
    result["audit"]["groups"] = groups
    text = finished(Path("run"), result)
    assert "red" not in text and "worst group" in text


def test_accuracy_of_each_class_by_hand() -> None:
    label = torch.tensor([0, 0, 1, 1, 1, 1, 3, -1])
    features = Features(torch.zeros(8, 2), label)
    sets = feature_sets(features, features, features)
    assert ClassAudit()(sets) == Scores()
    guess = torch.tensor([0, 1, 1, 1, 1, 0, 3, 3])
    sets = replace(sets, predictions={"knn": guess})
    assert ClassAudit()(sets).audit["by_class"]["knn"] == {
        "mean_top1": 75.0, "worst_top1": 50.0, "top1": {"0": 50.0, "1": 75.0, "3": 100.0},
    }  # fmt: skip
    assert ClassAudit()(sets).audit["classes"] == [
        {"class": "0", "label": 0, "n": 2}, {"class": "1", "label": 1, "n": 4}, {"class": "3", "label": 3, "n": 1}
    ]  # fmt: skip


def test_classes_are_printed_by_name_with_the_number_of_their_test_images() -> None:
    features = Features(torch.zeros(3, 2), torch.tensor([0, 0, 1]))
    guess, sets = {"knn": torch.tensor([0, 1, 1])}, feature_sets(features, features, features)
    audit = ClassAudit()(replace(sets, classes=("cat", "dog"), predictions=guess)).audit
    text = finished(Path("run"), {"test": {"knn_top1": 66.7}, "untrained": {}, "audit": audit})
    said = [line.split() for line in text.splitlines()]
    assert ["cat", "2", "50.00"] in said and ["dog", "1", "100.00"] in said


def test_it_follows_a_probe_in_the_list() -> None:
    features = Features(torch.randn(40, 4, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 4)
    with pytest.raises(ConfigError, match=r"try evaluator=\[linear,class_audit\]"):
        ClassAudit().check_names([])
    scores = evaluate({"knn": KNN(k=3), "class_audit": ClassAudit()}, feature_sets(features, features, features))
    assert scores.audit["by_class"]["knn"]["mean_top1"] == scores.test["knn_top1"]


def test_tables_call_a_class_by_the_name_of_its_folder() -> None:
    classes = [{"class": name, "label": label, "n": 3} for label, name in ((0, "ant"), (2, "bee"))]
    by_class = {"linear": {"mean_top1": 60.0, "worst_top1": 20.0, "top1": {"0": 100.0, "2": 20.0}}}
    result = {"test": {"linear_top1": 70.0}, "audit": {"by_class": by_class, "classes": classes}}
    found = figures.test_figures(result)
    assert found == {"linear_top1": 70.0, "linear_top1/ant": 100.0, "linear_top1/bee": 20.0}
    assert [name for name in found if figures.is_detail(name)] == ["linear_top1/ant", "linear_top1/bee"]
    del result["audit"]["classes"]  # an earlier version
    assert list(figures.test_figures(result))[1:] == ["linear_top1/0", "linear_top1/2"]
