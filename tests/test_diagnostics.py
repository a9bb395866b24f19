"""Diagnostics of a batch, by hand."""

import pytest
import torch

from contrastive.program.experiment import run_experiment
from contrastive.program.make import make
from contrastive.training.diagnostics import conflicting_pairs
from tests.helpers import logged_lines


def test_conflicting_pairs_are_counted_once():
    assert conflicting_pairs(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 0])) == 1


def test_debiasing_diagnostics_by_hand():
    z = torch.nn.functional.normalize(torch.randn(6, 2, 4, generator=torch.Generator().manual_seed(0)), dim=-1)
    label = torch.tensor([0, 0, 1, 1, 2, 2])
    values = make("loss/nt_xent").diagnostics(z, label, None)
    assert values["debiasing/false_negatives"] == pytest.approx(2 / 10)
    weights, false, terms = 0.0, 0.0, []
    for i in range(6):
        for a in range(2):
            e = {(j, b): float((z[i, a] @ z[j, b] / 0.5).exp()) for j in range(6) for b in range(2) if (j, b) != (i, a)}
            total = sum(e.values())
            weights += sum(v for (j, _), v in e.items() if j != i) / total
            false += sum(v for (j, _), v in e.items() if j != i and label[j] == label[i]) / total
            true = [v for (j, _), v in e.items() if label[j] != label[i]]
            terms.append(torch.tensor(sum(true) / len(true)).log())
    assert values["debiasing/gradient_on_false_negatives"].item() == pytest.approx(false / weights, rel=1e-4)
    assert values["debiasing/negative_oracle"].item() == pytest.approx(torch.stack(terms).mean().item(), rel=1e-4)
    oracle = make("loss/nt_xent", drop_false_negatives=True).diagnostics(z, label, None)
    assert oracle["debiasing/gradient_on_false_negatives"] == 0


def test_diagnostics_of_debiasing_are_logged_with_labels(composed, tmp_path):
    run_experiment(
        composed(
            "dataset.size=8", "encoder.width=2", "epochs=1", "loss=debiased_neg", "evaluator=[knn]", "batch_size=256"
        ),
        tmp_path,
    )
    keys = set().union(*logged_lines(tmp_path))
    assert {
        "debiasing/false_negatives",
        "debiasing/negative_estimate",
        "debiasing/negative_oracle",
        "debiasing/gradient_on_false_negatives",
        "pairs/clamped",
    } <= keys
