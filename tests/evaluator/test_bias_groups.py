"""Accuracies over bias groups, from a CSV with names to every table that a user reads."""

import csv
from collections import Counter
from pathlib import Path
from statistics import mean

import numpy as np
import pytest
from PIL import Image

import contrastive
from contrastive.cli.report import main
from contrastive.experiment.run import run_experiment
from contrastive.experiment.summary import finished
from tests.helpers import compose_settings

CLASSES, PLACES = ("landbird", "waterbird"), ("land", "water")


def write_birds(folder: Path) -> Path:
    """120 images of two classes, each mostly before a background of its own, and a table with words for both."""
    rng, rows = np.random.default_rng(0), [("img_filename", "split", "y", "place")]
    folder.mkdir()
    for i in range(120):
        split, label = ("train", "train", "val", "test")[i // 2 % 4], i % 2
        place = label if rng.random() < (0.5 if split == "test" else 0.9) else 1 - label
        image = rng.integers(0, 60, (12, 12, 3))
        image[..., place] += 120
        image[4:8, 4:8] += 60 * label
        Image.fromarray(image.astype(np.uint8)).save(folder / f"{i}.png")
        rows.append((f"{i}.png", split, CLASSES[label], PLACES[place]))
    with (folder / "metadata.csv").open("w") as file:
        csv.writer(file).writerows(rows)
    return folder


@pytest.mark.slow
def test_every_group_is_recorded_by_name_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_birds(tmp_path / "birds")
    words = [
        "dataset=image_folder", f"dataset.root={tmp_path}/birds", "dataset.table=metadata.csv", "dataset.size=12",
        "encoder=resnet18_narrow", "encoder.width=2", "channels_last=false", "epochs=1", "batch_size=32", "device=cpu",
        "evaluator=[knn,linear,bias_audit]", "evaluator.linear.max_iter=5",
    ]  # fmt: skip
    result = run_experiment(compose_settings(*words), tmp_path / "run")
    (line,) = contrastive.runs(tmp_path / "run").to_dict("records")
    rows = csv.DictReader((tmp_path / "birds/metadata.csv").open())
    groups = result["audit"]["groups"]
    n = Counter((row["y"], row["place"]) for row in rows if row["split"] == "test")
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
    asked = ["linear_conflicting_top1", "knn_top1/waterbird/land"]
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
