"""Curves of a run, small enough to be committed."""

import json
from pathlib import Path

from contrastive.report import collect, curves


def write_metrics(run: Path, lines: list[dict]) -> Path:
    (run / "metrics.jsonl").write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    return run


def test_thinned_curves_keep_both_ends_and_four_digits():
    points = [(float(i), 1 / (i + 1)) for i in range(1000)]
    thinned = curves.thin(points)
    assert len(thinned["epoch"]) == len(set(thinned["epoch"])) == 20
    assert (thinned["epoch"][0], thinned["epoch"][-1]) == (0.0, 999.0)
    assert thinned["value"][-1] == 0.001
    assert curves.thin(points[:3])["epoch"] == [0.0, 1.0, 2.0]
    assert curves.thin(points[:1])["epoch"] == [0.0]


def test_the_record_holds_the_tables_metrics_and_the_diagnostics(tmp_path):
    point = {"test/knn_top1": 1.0, "test/knn_top5": 2.0, "audit/linear/top1": 3.0, "train/loss": 4.0, "time/x": 5.0}
    lines = [{"step": i, "epoch": i, **point} for i in range(2)]
    write_metrics(tmp_path, [*lines, {"step": 2, "epoch": 2, "train/loss": float("nan")}])  # which no chart could draw
    names = collect.thinned_curves(tmp_path, ["audit.linear.top1"])
    assert set(names) == {"test/knn_top1", "audit/linear/top1", "train/loss"}
    assert names["train/loss"]["value"] == [4.0, 4.0]
    assert collect.logged_name("knn_top5") == "test/knn_top5"
    assert collect.thinned_curves(tmp_path / "none", ["knn_top1"]) == {}
