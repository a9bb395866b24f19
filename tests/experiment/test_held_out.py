"""held_out=N: a run is judged on training images that it does not train on, and never sees a test image."""

import json

import torch

from contrastive.dataset.biased_digits import biased_digits
from contrastive.experiment.components import load_data
from contrastive.experiment.run import run_experiment
from contrastive.report.frame import runs
from tests.helpers import TINY, compose_settings, without_time


def test_recolored_validation_images_are_judged_on_and_not_trained_on():
    node = {"_target_": "contrastive.dataset.biased_digits.biased_digits", "rho": 0.9, "size": 8, "hold_out": False}
    judged = load_data(node, 0)[0]
    held_out = biased_digits(rho=0.9, size=8, hold_out=True)
    assert torch.equal(judged.test.image, held_out.probe_val.image)
    assert torch.equal(judged.pretrain.image, held_out.pretrain.image)


def test_a_run_holds_no_figure_of_a_test_image(tmp_path):
    settings = compose_settings(*TINY, "held_out=1", "evaluator=[knn,linear,few_shot]")
    result = run_experiment(settings, tmp_path / "run")
    assert result["test"] == result["untrained"] == result["audit"] == {}
    assert {"knn_top1", "linear_top1"} <= result["val"].keys()
    logged = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert not any(key.startswith("test/") for line in logged for key in line)
    assert logged[-1]["val/knn_top1"] == result["val"]["knn_top1"]
    assert runs(tmp_path)["val/knn_top1"].item() == result["val"]["knn_top1"]
    assert without_time(run_experiment(settings, tmp_path / "run")) == without_time(result)
