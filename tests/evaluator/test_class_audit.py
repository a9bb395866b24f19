"""Accuracy by class, by hand."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from contrastive.errors import ConfigError
from contrastive.evaluator.base import Scores, evaluate
from contrastive.evaluator.class_audit import ClassAudit
from contrastive.evaluator.knn import KNN
from contrastive.experiment.summary import finished
from contrastive.run import figures
from contrastive.types import Features
from tests.helpers import feature_sets


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
    h = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
    features = Features(h, torch.arange(40) % 4)
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
