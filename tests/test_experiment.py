"""One run in a process: exact resume, the files of a run, refusals, evaluators of one's own."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

from contrastive.errors import ConfigError
from contrastive.experiment.run import run_experiment
from contrastive.run.files import read_result
from contrastive.run.tensorboard import tensorboard_tag
from contrastive.training.step import TrainStep
from tests.helpers import TINY, logged_lines, saved_weights, without_time, write_image_folder

BARE = [word for word in TINY if not word.startswith(("evaluator", "epochs"))] + ["epochs=1"]


@pytest.fixture
def stop_after(monkeypatch):
    """stop_after(n): Ctrl-C arrives during step n (from 0)."""
    step = TrainStep.__call__

    def arm(n: int | None) -> None:
        done = 0

        def counted(self, *arguments):
            nonlocal done
            if n is not None and done == n:
                raise KeyboardInterrupt
            done += 1
            return step(self, *arguments)

        monkeypatch.setattr(TrainStep, "__call__", counted)

    return arm


@pytest.mark.slow
@pytest.mark.parametrize(
    "extra", [["loss=debiased_pos"], ["n_views=3", "views_forward=per_view", "precision=fp32", "optimizer=sgd"]]
)
def test_resume_is_bit_exact(composed, tmp_path, stop_after, extra):
    settings = composed(*TINY, "log_every=2", *extra)
    whole = run_experiment(settings, tmp_path / "whole")
    per_epoch = 1438 // 256
    for stop in (2, per_epoch, per_epoch + 3, 2 * per_epoch + 1):  # before the first checkpoint, at a border, within
        path = tmp_path / f"stopped-{stop}"
        stop_after(stop)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(settings, path)
        stop_after(None)
        resumed = run_experiment(settings, path)
        assert without_time(resumed) == without_time(whole)
        assert logged_lines(path) == logged_lines(tmp_path / "whole")
        expected = saved_weights(tmp_path / "whole")
        actual = saved_weights(path)
        assert all(torch.equal(actual[key], expected[key]) for key in expected)


def test_the_run_directory_holds_everything(composed, tmp_path):
    settings = composed(*TINY)
    result = run_experiment(settings, tmp_path)
    assert read_result(tmp_path) == result
    assert set(result) == {
        "test", "val", "untrained", "audit", "protocol", "encoder", "time", "log", "made_by", "weights",
    }  # fmt: skip
    assert set(result["test"]) == {"knn_top1", "knn_top5", "linear_top1", "linear_top5", "few_shot_top1"}
    logged = logged_lines(tmp_path)
    keys = set().union(*logged)
    assert {
        "train/loss",
        "train/lr",
        "train/grad_norm",
        "pairs/positive_similarity",
        "pairs/negative_similarity",
        "pairs/alignment",
        "pairs/uniformity",
        "test/knn_top1",
        "test/linear_top1",
    } <= keys
    assert [line["step"] for line in logged] == sorted(line["step"] for line in logged)
    assert logged[-1]["test/knn_top1"] == result["test"]["knn_top1"]
    assert logged[0]["test/knn_top1"] == result["untrained"]["knn_top1"]
    environment = json.loads((tmp_path / "environment.json").read_text())
    assert {"command", "commit", "dirty", "code", "data", "torch", "device", "packages"} <= set(environment)

    from safetensors.torch import load_file
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    saved = load_file(tmp_path / "encoder.safetensors")
    assert all(torch.equal(saved[k], v) for k, v in saved_weights(tmp_path).items() if not k.startswith("head."))
    curves = EventAccumulator(str(tmp_path)).Reload()
    assert {tensorboard_tag(k) for k in keys if "/" in k} <= set(curves.Tags()["tensors"])
    assert curves.Tags()["images"] == ["views"]


def test_a_finished_run_is_shown_and_not_trained_again(composed, tmp_path, stop_after, capsys):
    settings = composed(*TINY, "epochs=1")
    first = run_experiment(settings, tmp_path)
    stop_after(0)  # any step would raise
    assert run_experiment(replace(settings, log_every=7), tmp_path) == first
    assert "done already" in capsys.readouterr().out
    with pytest.raises(KeyboardInterrupt):
        run_experiment(replace(settings, rerun=True), tmp_path)
    assert not (tmp_path / "result.json").exists()


def test_another_configuration_names_the_keys_that_differ(composed, tmp_path):
    run_experiment(composed(*TINY, "epochs=1"), tmp_path)
    with pytest.raises(ConfigError, match=r"epochs: 1 -> 2; loss.temperature: 0.5 -> 0.2; temperature: 0.5 -> 0.2"):
        run_experiment(composed(*TINY, "epochs=2", "temperature=0.2"), tmp_path)


def test_a_run_of_other_code_is_shown_and_resumed(composed, tmp_path, stop_after, monkeypatch, capsys):
    settings = composed(*TINY, "epochs=2")
    run_experiment(settings, tmp_path / "done")
    stop_after(1438 // 256 + 1)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(settings, tmp_path / "stopped")
    stop_after(None)
    commit = {"commit": "other", "dirty": False, "diff": None}
    monkeypatch.setattr("contrastive.run.provenance._checkout", lambda _: commit)
    run_experiment(settings, tmp_path / "done")
    assert "other code" in capsys.readouterr().out
    result = run_experiment(settings, tmp_path / "stopped")
    assert "warning: the code changed since the run was interrupted" in capsys.readouterr().out
    assert result["resumed_with"] == [{**commit, "modules": {}}]
    whole = json.loads((tmp_path / "done/result.json").read_text())
    assert all(result[key] == whole[key] for key in ("test", "val", "untrained", "audit", "weights"))


def test_a_finished_run_is_shown_without_its_data(composed, tmp_path, capsys):
    folder = write_image_folder(tmp_path / "insects")
    words = [word for word in TINY if not word.startswith("batch_size")] + ["epochs=1", "batch_size=8"]
    words += ["dataset=image_folder", f"dataset.root={folder}", "dataset.size=8", f"dataset.cache={tmp_path}/cache"]
    settings = composed(*words)
    result = run_experiment(settings, tmp_path / "run")
    shutil.rmtree(folder)
    shutil.rmtree(tmp_path / "cache")
    capsys.readouterr()
    assert run_experiment(settings, tmp_path / "run") == result
    assert "done already" in capsys.readouterr().out


def test_a_directory_in_use_is_refused(composed, tmp_path, monkeypatch):
    settings = composed(*TINY, "epochs=1")

    def second(self, *_):
        with pytest.raises(ConfigError, match="another process"):
            run_experiment(settings, tmp_path)
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainStep, "__call__", second)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(settings, tmp_path)


def test_loss_that_is_not_finite_stops_the_run(composed, tmp_path, monkeypatch):
    step = TrainStep.__call__
    calls = []

    def broken(self, *arguments):
        output = step(self, *arguments)
        calls.append(0)
        return output._replace(loss=output.loss * float("nan")) if len(calls) > 5 else output

    monkeypatch.setattr(TrainStep, "__call__", broken)
    with pytest.raises(ConfigError, match="the loss became nan in epoch 2"):
        run_experiment(composed(*TINY), tmp_path)
    assert torch.load(tmp_path / "checkpoints/last.pt", weights_only=True)["epoch"] == 1


@pytest.mark.slow
def test_a_torn_log_line_is_cut(composed, tmp_path, stop_after):
    settings = composed(*TINY)
    run_experiment(settings, tmp_path / "whole")
    stop_after(1438 // 256 + 2)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(settings, tmp_path / "torn")
    with (tmp_path / "torn/metrics.jsonl").open("a") as file:
        file.write('{"step": 7, "ep')
    shutil.copytree(tmp_path / "torn", tmp_path / "again")
    stop_after(None)
    run_experiment(settings, tmp_path / "again")
    assert logged_lines(tmp_path / "again") == logged_lines(tmp_path / "whole")


def test_evaluators_can_be_left_out_and_keep_their_names(composed, tmp_path):
    none = run_experiment(composed(*BARE, "evaluator=[]"), tmp_path / "none")
    assert (none["test"], none["untrained"], none["val"]) == ({}, {}, {})
    assert (tmp_path / "none/encoder.safetensors").exists()
    words = ["evaluator=[linear,rankme,alignment_uniformity]", "evaluator.rankme.every=1", "epochs=2"]
    result = run_experiment(composed(*BARE, *words), tmp_path / "some")
    names = {
        "linear_top1",
        "linear_top5",
        "rankme",
        "alignment_uniformity_alignment",
        "alignment_uniformity_uniformity",
    }
    assert set(result["test"]) == set(result["untrained"]) == names
    assert set(result["protocol"]) == {"linear", "rankme", "alignment_uniformity"}
    curve = [line["test/rankme"] for line in logged_lines(tmp_path / "some") if "test/rankme" in line]
    assert len(curve) == 3
    assert curve[0] == result["untrained"]["rankme"]
    assert curve[-1] == result["test"]["rankme"]


@pytest.mark.slow
def test_a_streamed_run_is_the_resident_run(composed, tmp_path):
    for word in ("true", "false"):
        run_experiment(composed(*TINY, "epochs=1", "batch_size=64", f"resident={word}"), tmp_path / word)
    assert logged_lines(tmp_path / "true") == logged_lines(tmp_path / "false")
