"""The test split influences nothing but the figures on it."""

from dataclasses import replace

import pytest
import torch

from contrastive.dataset import digits
from contrastive.evaluator import linear
from contrastive.experiment import components
from contrastive.experiment.run import run_experiment
from tests.helpers import BARE, saved_weights

WORDS = [*BARE, "epochs=1", "evaluator=[linear]", "evaluator.linear.max_iter=5", "evaluator.linear.every=1"]


@pytest.mark.smoke
def test_permuted_test_labels_change_no_weight_and_no_choice(composed, tmp_path, monkeypatch):
    load, fit, strengths = digits.digits, linear.fit_logistic, []

    def permuted(**options):
        data = load(**options)
        order = torch.randperm(len(data.test), generator=torch.Generator().manual_seed(0))
        return replace(data, test=replace(data.test, label=data.test.label[order]), digest=None)

    permuted.__module__ = load.__module__  # a dataset is taken from where its name says it is

    def recorded(*arguments, **options):
        strengths.append(options["l2"])
        return fit(*arguments, **options)

    monkeypatch.setattr(linear, "fit_logistic", recorded)
    results, chosen = [], []
    for name, dataset in (("plain", load), ("permuted", permuted)):
        monkeypatch.setattr(digits, "digits", dataset)
        components._load_data.cache_clear()
        strengths.clear()
        results.append(run_experiment(composed(*WORDS), tmp_path / name))
        chosen.append(list(strengths))
    components._load_data.cache_clear()
    plain, shuffled = (saved_weights(tmp_path / name) for name in ("plain", "permuted"))
    assert all(torch.equal(plain[key], shuffled[key]) for key in plain)
    assert results[0]["val"] == results[1]["val"]
    assert chosen[0] == chosen[1]  # the strengths tried and, after each round, the one chosen
    assert results[0]["test"]["linear_top1"] > 2 * results[1]["test"]["linear_top1"]  # the labels did change
