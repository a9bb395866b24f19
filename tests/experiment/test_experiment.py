"""One run in a process: exact resume, the files of a run, refusals, evaluators of one's own."""

import json

import pytest
import torch
from safetensors.torch import load_file

from contrastive.experiment.run import run_experiment
from contrastive.run.files import read_result
from tests.helpers import (
    BARE,
    TINY,
    TWO_STREAMS,
    check_resumes,
    check_same,
    logged_lines,
    run_until_step,
    saved_weights,
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
