"""The audit of biased data, the diagnostics of debiasing, and whole biased runs."""

import pytest
import torch

from contrastive import make
from contrastive.errors import ConfigError
from contrastive.evaluator.bias_audit import conflicting_pairs, group_accuracy, own_bias, similarity_kinds
from contrastive.program import experiment as program
from contrastive.training.diagnostics import debiasing
from contrastive.types import Split
from tests.test_run import lines

SMALL = [
    "dataset=biased_digits",
    "dataset.size=8",
    "epochs=2",
    "encoder.width=2",
    "encoder.kernel_size=3",
    "batch_size=256",
    "probe.max_iter=5",
    "device=cpu",
    "dataset.rho=0.9",
]


def test_group_accuracy_by_hand():
    label, bias = torch.tensor([0, 0, 0, 1, 1, 1]), torch.tensor([0, 0, 1, 1, 1, 0])
    own = own_bias(Split(torch.zeros(6, 3, 1, 1), label, bias), 2, 2)
    assert own.tolist() == [0, 1]
    found = group_accuracy(torch.tensor([0, 1, 0, 1, 1, 0]), label, bias, own)
    assert found == pytest.approx(
        {"top1": 400 / 6, "aligned_top1": 75, "conflicting_top1": 50, "cell_mean_top1": 62.5, "worst_cell_top1": 0}
    )


def test_a_group_without_images_is_left_out():
    label = torch.tensor([0, 1])
    found = group_accuracy(label, label, label, torch.tensor([0, 1]))
    assert "conflicting_top1" not in found
    assert found["aligned_top1"] == 100


def test_kinds_of_pairs_by_hand():
    h = torch.tensor([[1.0, 0], [0, 1], [1, 0], [-1, 0]])
    label, bias = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 0])
    kinds = {key: sorted(value.tolist()) for key, value in similarity_kinds(h, label, bias).items()}
    assert kinds == {
        "positive_aligned": [-1],
        "positive_conflicting": [0],
        "negative_aligned": [-1, 1],
        "negative_conflicting": [0, 0],
    }
    assert conflicting_pairs(label, bias) == 1


def test_debiasing_diagnostics_by_hand():
    z = torch.nn.functional.normalize(torch.randn(6, 2, 4, generator=torch.Generator().manual_seed(0)), dim=-1)
    label = torch.tensor([0, 0, 1, 1, 2, 2])
    found = debiasing(make("loss/nt_xent"), z, label)
    assert found["false_negatives"] == pytest.approx(2 / 10)
    weights, false, terms = 0.0, 0.0, []
    for i in range(6):
        for a in range(2):
            e = {(j, b): float((z[i, a] @ z[j, b] / 0.5).exp()) for j in range(6) for b in range(2) if (j, b) != (i, a)}
            total = sum(e.values())
            weights += sum(v for (j, _), v in e.items() if j != i) / total
            false += sum(v for (j, _), v in e.items() if j != i and label[j] == label[i]) / total
            true = [v for (j, _), v in e.items() if label[j] != label[i]]
            terms.append(torch.tensor(sum(true) / len(true)).log())
    assert found["gradient_on_false_negatives"].item() == pytest.approx(false / weights, rel=1e-4)
    assert found["negative_oracle"].item() == pytest.approx(torch.stack(terms).mean().item(), rel=1e-4)
    oracle = debiasing(make("loss/nt_xent", drop_false_negatives=True), z, label)
    assert oracle["gradient_on_false_negatives"] == 0


@pytest.mark.parametrize(
    "words",
    [
        ["loss=cross_entropy"],
        ["loss=eps_supinfonce", "regularizer=fairkl"],
        ["loss=bias_contrastive", "regularizer=bias_balanced", "sampler=bias_balanced"],
        ["loss=cross_entropy", "regularizer=lnl"],
    ],
)
def test_biased_runs_are_audited_and_resume_exactly(composed, tmp_path, words, monkeypatch):
    from contrastive.training.step import Trainer

    cfg = composed(*SMALL, *words)
    whole = program.run(cfg, tmp_path / "whole")
    read_outs = {"linear"} | ({"classifier"} if "cross_entropy" in words[0] or "bias_balanced" in words[1] else set())
    assert read_outs <= set(whole["audit"])
    assert whole["audit"]["reported"] == whole["audit"]["classifier" if "classifier" in read_outs else "linear"]
    for name in read_outs:
        assert set(whole["audit"][name]) == {
            "top1",
            "aligned_top1",
            "conflicting_top1",
            "cell_mean_top1",
            "worst_cell_top1",
        }
    assert set(whole["audit"]["similarity"]) == {
        "positive_aligned",
        "positive_conflicting",
        "negative_aligned",
        "negative_conflicting",
    }
    assert any("bias/conflicting_pairs" in line for line in lines(tmp_path / "whole"))
    step, count = Trainer.step, []

    def stops(self, *arguments):
        count.append(0)
        if len(count) == 7:
            raise KeyboardInterrupt
        return step(self, *arguments)

    monkeypatch.setattr(Trainer, "step", stops)
    with pytest.raises(KeyboardInterrupt):
        program.run(cfg, tmp_path / "stopped")
    resumed = program.run(cfg, tmp_path / "stopped")
    assert {k: v for k, v in resumed.items() if k != "time"} == {k: v for k, v in whole.items() if k != "time"}
    assert lines(tmp_path / "stopped") == lines(tmp_path / "whole")


@pytest.mark.parametrize(
    "words", [["regularizer=fairkl"], ["loss=bias_contrastive"], ["regularizer=lnl"], ["sampler=bias_balanced"]]
)
def test_data_without_bias_is_refused_in_one_sentence(composed, tmp_path, words):
    with pytest.raises(ConfigError, match="needs bias labels and the data has none: try dataset=biased_digits"):
        program.run(composed("dataset.size=8", *words), tmp_path)


def test_diagnostics_of_debiasing_are_logged_with_labels(composed, tmp_path):
    program.run(
        composed(
            "dataset.size=8", "encoder.width=2", "epochs=1", "loss=debiased_neg", "probe.max_iter=5", "batch_size=256"
        ),
        tmp_path,
    )
    keys = set().union(*lines(tmp_path))
    assert {
        "debiasing/false_negatives",
        "debiasing/negative_estimate",
        "debiasing/negative_oracle",
        "debiasing/gradient_on_false_negatives",
        "pairs/clamped",
    } <= keys
