"""Rows in the order of a metric, or judged against one of them, and later evaluations beside the figures of a run."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contrastive.cli.report import main
from contrastive.files import file_hash
from contrastive.report.frame import read_frame
from contrastive.report.judge import judge
from contrastive.report.page import main as page
from contrastive.run.files import ENCODER, read_result, write_evaluation, write_result
from contrastive.text import pack_bits
from tests.helpers import SOUND_ENVIRONMENT, write_finished
from tests.report.test_report import cells

KNN = {"knn": {"_target_": "x.KNN", "k": 5, "every": 1}}


def save_run(path: Path, *, loss: str, seed: int, knn: float, linear: float | None = None, **config: Any) -> Path:
    config = {"loss": {"_target_": f"x.{loss}"}, "seed": seed, "evaluator": KNN, **config}
    val = {} if linear is None else {"linear_top1": linear}
    write_finished(path, config=config, environment={}, test={"knn_top1": knn, "linear_top1": knn / 2}, val=val)
    (path / "encoder.safetensors").write_bytes(b"weights")
    points = [{"step": epoch, "epoch": epoch, "train/loss": knn / (epoch + 1)} for epoch in range(3)]
    (path / "metrics.jsonl").write_text("".join(json.dumps(point) + "\n" for point in points))
    return path


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two losses with three seeds each: Bad is better on the test split, Good on the validation images."""
    for seed, noise in enumerate((0.0, 1.0, 5.0)):
        save_run(tmp_path / f"runs/bad/{seed}", loss="Bad", seed=seed, knn=50 + noise, linear=70 - noise)
        save_run(tmp_path / f"runs/good/{seed}", loss="Good", seed=seed, knn=48 + 1.1 * noise, linear=80 - noise)
    return tmp_path / "runs"


def evaluation(
    run: Path, name: str, value: float, *, k: int = 5, dataset: str = "", code: str = "", **node: Any
) -> None:
    evaluator = {"knn": {"_target_": "x.KNN", "k": k}, "knn_sweep": {}}
    record = {
        "weights": file_hash(run / ENCODER), "protocol": {}, "time": {"seconds": 1.0},
        "environment": {"code": "c", "modules": {"x": code} if code else {}},
        "dataset": dataset, "is_transfer": bool(dataset), "test": {"knn_top1": value, "knn_sweep_top1": 1.0},
        "val": {}, "settings": {"dataset": {"_target_": "digits", **node}, "evaluator": evaluator},
    }  # fmt: skip
    write_evaluation(run, name, record)


def test_rows_are_in_the_order_of_validation_images(runs, capsys):
    for metric, first in (("val/linear_top1", "good"), ("linear_top1", "bad")):
        assert main([str(runs), "--sort", metric]) == 0
        rows = cells(capsys.readouterr().out)
        assert next(name for name in rows if name in ("bad", "good")) == first
    assert rows["runs"] == ["knn_top1", "linear_top1"]


def test_runs_that_hold_images_out_are_read_on_these(tmp_path, capsys):
    for seed, loss in product(range(3), ("Bad", "Good")):
        config = {"loss": {"_target_": f"x.{loss}"}, "seed": seed, "held_out": 0, "evaluator": KNN}
        config |= {"epochs": 1, "batch_size": 2, "n_views": 2, "optimizer": {"_target_": "x.Adam"}}
        val = {"knn_top1": 50.0 + seed, "knn_top5": 90.0}
        write_finished(tmp_path / loss / str(seed), config=config, environment={}, test={}, val=val)
    assert main([str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert ": validation images, mean ± std" in said and "test split" not in said
    assert cells(said)["runs"] == ["val/knn_top1"] and cells(said)["bad"] == ["51.00 ± 1.00 (3)"]
    assert main([str(tmp_path), "--metric", "knn_top1"]) == 2
    assert "known are val/knn_top1, val/knn_top5: try val/knn_top1" in capsys.readouterr().err
    assert main([str(tmp_path), "--format", "latex", "--metric", "val/knn_top1"]) == 0
    assert "over seeds (n), validation images, accuracies" in capsys.readouterr().out
    assert page([str(tmp_path / "p.html"), str(tmp_path)]) == 0
    assert "Validation images" in (tmp_path / "p.html").read_text()


def test_a_transfer_to_data_that_each_seed_draws_is_one_metric(runs):
    for seed in range(3):
        evaluation(runs / f"bad/{seed}", "e", 60.0 + seed, dataset="drawn", data_seed=seed)
    assert read_frame([runs]).rows["bad"]["drawn:knn_top1"].tolist() == [60.0, 61.0, 62.0]


def test_rows_are_judged_against_the_one_that_is_named(runs, capsys):
    assert main([str(runs), "--against", "bad"]) == 0
    told = capsys.readouterr().out
    assert "95 % intervals over common seeds, from three" in told  # no run has answers for each image
    said = cells(told)
    assert said["against bad"] == ["knn_top1", "linear_top1"]
    (effect, _) = said["good"]
    assert effect.startswith("-1.80 [-2.4")
    assert effect.endswith("] worse")  # paired: every seed says so
    assert main([str(runs), "--against", "good", "--metric", "knn_top1"]) == 0
    assert cells(capsys.readouterr().out)["bad"][0].endswith("] better")
    assert main([str(runs), "--against", "best"]) == 2
    assert "no row is called best, known are bad, good: try --against 'bad'" in capsys.readouterr().err


def test_a_row_of_another_dataset_is_not_judged(runs, capsys):
    elsewhere = {"_target_": "contrastive.dataset.cifar.cifar10"}
    save_run(runs / "elsewhere", loss="Other", seed=0, knn=50, dataset=elsewhere)
    assert main([str(runs), "--against", "bad"]) == 0
    said = capsys.readouterr().out
    assert said.count("against bad") == 1
    assert "cifar10: test split" in said


@pytest.mark.parametrize(
    "other", [{"device": "a GPU"}, {"torch": "2"}, {"precision": "bf16"}, {"earlier": [{"torch": "2"}]}]
)
def test_runs_of_other_kinds_of_machine_are_not_paired(runs, capsys, other):
    (runs / "good/1/environment.json").write_text(json.dumps(SOUND_ENVIRONMENT | other))
    assert main([str(runs), "--against", "bad"]) == 0
    said = capsys.readouterr().out
    assert cells(said)["good"][0] == "-1.75"  # over the two seeds that are left, too few for an interval
    assert "good: its runs are of several kinds of processor, precision or torch (" in said
    assert "several states of contrastive's code" not in said


def test_a_table_says_that_several_states_of_the_code_trained_it(runs, capsys):
    for path in runs.glob("*/*/environment.json"):
        path.write_text(json.dumps(SOUND_ENVIRONMENT | {"package": "1"}))
    edited = {"package": "2", "earlier": [{"package": "1"}]}
    (runs / "good/1/environment.json").write_text(json.dumps(SOUND_ENVIRONMENT | edited))
    assert main([str(runs)]) == 0
    assert "by several states of contrastive's code: 1 (bad, good); 1, then 2 (good)" in capsys.readouterr().out


def test_a_loss_of_ones_own_that_was_edited_within_a_run_is_a_row_of_its_own(runs):
    edited = {"modules": {"mine": "2"}, "earlier": [{"modules": {"mine": "1"}}]}
    for seed, own in enumerate(({"modules": {"mine": "2"}}, edited, {"modules": {"mine": "2"}})):
        (runs / f"good/{seed}/environment.json").write_text(json.dumps(SOUND_ENVIRONMENT | own))
    assert sorted(map(len, read_frame([runs]).rows.values())) == [1, 2, 3]


def test_a_difference_is_judged_over_test_images_and_corrected_for_the_comparisons(runs, capsys):
    rng = np.random.default_rng(0)
    for seed in range(3):
        for loss, share in (("bad", 0.5), ("good", 0.7)):
            right = np.arange(1000) < 1000 * share
            right ^= rng.random(1000) < 0.02
            result = read_result(runs / loss / str(seed))
            result["test"]["knn_top1"] = 100 * right.mean()
            result["correct"] = {"knn_top1": pack_bits(right)}
            write_result(runs / loss / str(seed), result)
    table = read_frame([runs])
    assert main([str(runs), "--metric", "knn_top1", "--against", "bad"]) == 0
    said = capsys.readouterr().out
    (claim,) = judge(table, [{"better": "good", "worse": "bad", "metric": "knn_top1", "gap": 0.0}])
    assert claim["over"] == "seeds, images"
    assert cells(said)["good"] == [f"{claim['effect']:+.2f} [{claim['low']:+.2f}, {claim['high']:+.2f}] better"]
    assert "over common seeds and test images, from" in said
    assert "correction for 1 comparison." in said
    assert main([str(runs), "--against", "bad"]) == 0
    assert "over common seeds and test images (of knn_top1 alone), from" in capsys.readouterr().out


def test_later_evaluations_stand_beside_the_figures_of_the_run(runs):
    run = runs / "bad/0"
    evaluation(run, "own", 99.0, _target_="x.Y")
    evaluation(run, "other", 10.0, dataset="cifar10", _target_="cifar10")
    frame = read_frame([runs])
    assert {metric: frame.rows["bad"][metric].iloc[0] for metric in frame.test_metrics()} == {
        "knn_top1": 50.0,  # the run's own, not the later one
        "linear_top1": 25.0,
        "knn_sweep_top1": 1.0,
        "cifar10:knn_top1": 10.0,
        "cifar10:knn_sweep_top1": 1.0,
    }


def test_figures_of_other_settings_never_share_a_name(runs):
    evaluation(runs / "bad/0", "five", 10.0, k=5, dataset="cifar10")
    evaluation(runs / "good/0", "nine", 20.0, k=9, dataset="cifar10")
    frame = read_frame([runs])
    assert frame.values("bad", "cifar10:knn_top1 (k=5)") == [10.0]
    assert frame.values("good", "cifar10:knn_top1 (k=9)") == [20.0]
    assert frame.values("bad", "cifar10:knn_sweep_top1") == frame.values("good", "cifar10:knn_sweep_top1") == [1.0]
    evaluation(runs / "bad/1", "edited", 30.0, k=5, dataset="cifar10", code="ab")  # an evaluator of one's own
    frame = read_frame([runs])
    assert frame.values("bad", "cifar10:knn_top1 (k=5 no x)") == [10.0]
    assert frame.values("bad", "cifar10:knn_top1 (k=5 x=ab)") == [30.0]


def test_lower_is_better_for_alignment_and_uniformity(tmp_path, capsys):
    for seed in range(3):
        for loss, figure in (("Near", -2.0), ("Far", -1.0)):
            path = save_run(tmp_path / f"{loss}/{seed}", loss=loss, seed=seed, knn=50.0)
            result = read_result(path)
            result["test"]["alignment_uniformity_uniformity"] = figure + 0.01 * seed * (loss == "Far")
            write_result(path, result)
    assert main([str(tmp_path), "--against", "far", "--metric", "alignment_uniformity_uniformity"]) == 0
    assert "better" in cells(capsys.readouterr().out)["near"][-1]
