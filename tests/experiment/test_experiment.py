"""One run in a process: exact resume, the files of a run, one on held-out images, which never sees a test image."""

import json

import pytest
import torch
from safetensors.torch import load_file

from contrastive.dataset.biased_digits import biased_digits
from contrastive.experiment.components import load_data
from contrastive.experiment.run import run_experiment
from contrastive.report.frame import runs
from contrastive.run.files import read_result
from tests.helpers import (
    BARE,
    TINY,
    TWO_STREAMS,
    check_resumes,
    check_same,
    compose_settings,
    logged_lines,
    run_until_step,
    saved_weights,
    without_time,
)

PER_EPOCH = 1438 // 256


@pytest.mark.slow
@pytest.mark.parametrize(
    "extra",
    [
        ["loss=debiased_pos"],
        ["n_views=3", "views_forward=per_view", "precision=fp32", "optimizer=sgd"],
        ["loss=sogclr", "loss.gamma=0.5"],
        ["loss=glofnd", "loss.start=0", "loss.alpha=0.2"],
        ["loss=lejepa", "loss.n_directions=16"],
        ["dataset=biased_digits", "loss=group_dro", "sampler=group_balanced"],
    ],
)
def test_resume_is_bit_exact(composed, tmp_path, extra):
    settings = composed(*TINY, "log_every=2", "checkpoint_every=1", *extra)
    run_experiment(settings, tmp_path / "whole")
    for n_done in (2, PER_EPOCH, PER_EPOCH + 3, 2 * PER_EPOCH + 1):  # before the first checkpoint, at a border, within
        path = tmp_path / f"stopped-{n_done}"
        run_until_step(n_done + 1, settings, path)
        with (path / "metrics.jsonl").open("a") as file:
            file.write('{"step": 7, "ep')  # torn: it is cut
        run_experiment(settings, path)
        check_same(path, tmp_path / "whole")


TAUGHT = ["evaluator=[knn]", "precision=fp32", "teacher=ema", "head=predictor", "teacher.schedule=cosine"]


@pytest.mark.parametrize("words", [TWO_STREAMS, [*BARE, *TAUGHT, "teacher.queue=100"]])
def test_two_batches_and_a_teacher_are_resumed_inside_an_epoch(composed, tmp_path, words):
    check_resumes(8, composed(*words, "checkpoint_every_minutes=0"), tmp_path)


def test_the_run_directory_holds_everything(composed, tmp_path):
    result = run_experiment(composed(*TINY), tmp_path)
    assert read_result(tmp_path) == result
    assert set(result) == {
        "test", "val", "untrained", "audit", "protocol", "correct", "encoder", "time", "log", "made_by", "weights",
        "untrained_correct",
    }  # fmt: skip
    assert set(result["test"]) == {"knn_top1", "knn_top5", "linear_top1", "linear_top5", "few_shot_top1"}
    logged = logged_lines(tmp_path)
    assert {
        "train/loss", "train/lr", "train/grad_norm", "pairs/positive_similarity", "pairs/negative_similarity",
        "pairs/alignment", "pairs/uniformity", "test/knn_top1", "test/linear_top1",
    } <= set().union(*logged)  # fmt: skip
    assert [line["step"] for line in logged] == sorted(line["step"] for line in logged)
    assert logged[-1]["test/knn_top1"] == result["test"]["knn_top1"]
    assert logged[0]["test/knn_top1"] == result["untrained"]["knn_top1"]
    environment = json.loads((tmp_path / "environment.json").read_text())
    assert {"command", "commit", "dirty", "code", "data", "torch", "device", "packages"} <= set(environment)
    saved = load_file(tmp_path / "encoder.safetensors")
    assert all(torch.equal(saved[k], v) for k, v in saved_weights(tmp_path).items() if not k.startswith("head."))


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
