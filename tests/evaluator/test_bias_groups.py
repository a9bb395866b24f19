"""Accuracies over bias groups, from the names of the data to every table that a user reads."""

from collections import Counter
from pathlib import Path
from statistics import mean

import pytest

import contrastive
from contrastive.cli.report import main
from contrastive.dataset.biased_digits import biased_digits
from contrastive.experiment.run import run_experiment
from contrastive.experiment.summary import finished
from tests.helpers import BARE, compose_settings


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
