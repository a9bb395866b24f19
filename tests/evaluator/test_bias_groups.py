"""Accuracies over bias groups, from a CSV with names to every table that a user reads."""

import csv
import json
from collections import Counter
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import pytest
from PIL import Image

import contrastive
from contrastive.cli.report import main
from contrastive.experiment.summary import finished
from contrastive.run.files import read_config
from tests.helpers import program

CLASSES, PLACES, WIDTHS, SEEDS = ("landbird", "waterbird"), ("land", "water"), (2, 4), (0, 1)


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


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What a sweep of two networks and two seeds printed, and its folder."""
    folder = tmp_path_factory.mktemp("sweep")
    write_birds(folder / "birds")
    words = [
        "dataset=image_folder", "dataset.root=birds", "dataset.table=metadata.csv", "dataset.size=12", "device=cpu",
        "encoder=resnet18_narrow", f"encoder.width={WIDTHS[0]},{WIDTHS[1]}", "seed=0,1", "epochs=1", "batch_size=32",
        "evaluator=[knn,linear,bias_audit]", "evaluator.linear.max_iter=5", "channels_last=false",
    ]  # fmt: skip
    done = program("-m", "hydra/launcher=basic", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout, folder


def results(folder: Path) -> dict[tuple[int, int], dict]:
    """{(width, seed): result.json}."""
    found = {}
    for file in folder.rglob("result.json"):
        config = read_config(file.parent)
        found[config["encoder"]["width"], config["seed"]] = json.loads(file.read_text())
    return found


def cells(text: str) -> dict[str, list[str]]:
    """{first cell: the others} of a Markdown table."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    return {first: rest for first, *rest in rows}


def spread(values: list[float]) -> str:
    return f"{mean(values):.2f} ± {stdev(values):.2f} ({len(values)})"


@pytest.mark.slow
def test_every_group_is_recorded_by_name_and_reported(sweep, capsys):
    text, folder = sweep
    found, table = results(folder), contrastive.runs(folder).set_index(["encoder.width", "seed"])
    rows = csv.DictReader((folder / "birds/metadata.csv").open())
    n = Counter((row["y"], row["place"]) for row in rows if row["split"] == "test")
    for (width, seed), result in found.items():
        groups, line = result["audit"]["groups"], table.loc[(width, seed)]
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
    printed = cells(text)
    assert printed["runs"][:2] == ["knn_top1", "knn_worst_group_top1"]
    for width in WIDTHS:
        trained = [found[width, seed]["audit"]["knn"]["worst_group_top1"] for seed in SEEDS]
        assert printed[f"nt_xent encoder.width={width}"][1] == spread(trained)
    asked = "knn_top1/waterbird/land"
    assert main([str(folder), "--metric", "linear_conflicting_top1", asked]) == 0
    printed = cells(capsys.readouterr().out)
    assert printed["runs"] == ["linear_conflicting_top1", asked]
    for width in WIDTHS:
        trained = [table.loc[(width, seed)][asked] for seed in SEEDS]
        assert printed[f"nt_xent encoder.width={width}"][1] == spread(trained)


def test_a_run_prints_its_groups_by_name_and_of_many_only_the_summary():
    groups = [{"class": str(i), "bias": "red", "n": 4, "top1": {"knn": 1.0 * i}} for i in range(100)]
    result = {"test": {"knn_top1": 80.0}, "untrained": {}, "audit": {"bias_top1": 90.0, "groups": groups[:4]}}
    assert ["3,", "red", "4", "3.00"] in [line.split() for line in finished(Path("run"), result).splitlines()]
    result["audit"]["groups"] = groups
    text = finished(Path("run"), result)
    assert "red" not in text and "worst group" in text
