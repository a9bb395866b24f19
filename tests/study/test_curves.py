"""Curves, views and histograms of a run, small enough to be committed."""

import base64
import json
from pathlib import Path

import pytest
import torch

from contrastive.run.tensorboard import EventFile
from contrastive.study import collect, curves
from contrastive.study.collect import N_BINS
from tests.helpers import SOUND_ENVIRONMENT


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
    write_metrics(tmp_path, [{"step": i, "epoch": i, **point} for i in range(2)])
    names = collect.thinned_curves(tmp_path, ["audit.linear.top1"])
    assert set(names) == {"test/knn_top1", "audit/linear/top1", "train/loss"}
    assert collect.logged_name("knn_top5") == "test/knn_top5"
    assert collect.thinned_curves(tmp_path / "none", ["knn_top1"]) == {}


def test_bins_of_equal_width_hold_the_same_share():
    shares = collect.equal_bins([[-0.5, 0.0, 1.0], [0.0, 1.0, 3.0]])
    assert sum(shares) == pytest.approx(100)
    assert sum(shares[: N_BINS // 2]) == pytest.approx(25)
    assert shares[0] == 0
    assert shares[-1] == pytest.approx(75 / 20)


def test_views_and_histograms_are_read_from_the_events(tmp_path):
    (tmp_path / "config.yaml").write_text("{}")
    (tmp_path / "environment.json").write_text(json.dumps(SOUND_ENVIRONMENT))
    writer = EventFile(tmp_path, step=None)
    writer.add_image("views", torch.rand(3, 4, 8), 0)
    for step, value in ((0, -0.9), (1, 0.9)):
        writer.add_histogram("similarity/positive_aligned", torch.full((10,), value), step)
    writer.close()
    assert base64.b64decode(collect.views_as_png(tmp_path)).startswith(b"\x89PNG")
    histograms = collect.similarity_histograms(tmp_path)
    assert list(histograms) == ["positive_aligned"]
    assert sum(histograms["positive_aligned"][: N_BINS // 2]) == 0  # the newest one, which is above 0
    assert sum(histograms["positive_aligned"]) == pytest.approx(100, abs=0.1)
    assert collect.views_as_png(tmp_path / "none") is None
    assert collect.similarity_histograms(tmp_path / "none") == {}
