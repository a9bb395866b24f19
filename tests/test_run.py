"""The run directory: exact resume, refusals."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from contrastive.errors import ConfigError
from contrastive.program import experiment as program
from contrastive.run.directory import differing
from contrastive.training.step import Trainer
from tests.conftest import TINY


def lines(path: Path) -> list[dict]:
    """metrics.jsonl without the keys that measure time."""
    return [
        {k: v for k, v in json.loads(line).items() if not k.startswith("time/")}
        for line in (path / "metrics.jsonl").read_text().splitlines()
    ]


def weights(path: Path) -> dict[str, torch.Tensor]:
    state = torch.load(path / "checkpoints/last.pt", weights_only=True)
    return {**state["encoder"], **{f"head.{k}": v for k, v in state["head"].items()}}


def without_time(result: dict) -> dict:
    return {k: v for k, v in result.items() if k != "time"}


@pytest.fixture
def stop_after(monkeypatch):
    """stop_after(n): Ctrl-C arrives during step n (from 0)."""
    step = Trainer.step

    def arm(n: int | None) -> None:
        done = 0

        def counted(self, *arguments):
            nonlocal done
            if n is not None and done == n:
                raise KeyboardInterrupt
            done += 1
            return step(self, *arguments)

        monkeypatch.setattr(Trainer, "step", counted)

    return arm


@pytest.mark.parametrize(
    "extra", [["loss=debiased_pos"], ["n_views=3", "views_forward=per_view", "precision=fp32", "optimizer=sgd"]]
)
def test_resume_is_the_same_run_bit_for_bit(composed, tmp_path, stop_after, extra):
    cfg = composed(*TINY, "log_every=2", *extra)
    whole = program.run(cfg, tmp_path / "whole")
    per_epoch = 1438 // 256
    for stop in (2, per_epoch, per_epoch + 3, 2 * per_epoch + 1):  # before the first checkpoint, at a border, within
        path = tmp_path / f"stopped-{stop}"
        stop_after(stop)
        with pytest.raises(KeyboardInterrupt):
            program.run(cfg, path)
        stop_after(None)
        resumed = program.run(cfg, path)
        assert without_time(resumed) == without_time(whole)
        assert lines(path) == lines(tmp_path / "whole")
        expected = weights(tmp_path / "whole")
        got = weights(path)
        assert all(torch.equal(got[key], expected[key]) for key in expected)


def test_the_run_directory_holds_everything(composed, tmp_path):
    cfg = composed(*TINY)
    result = program.run(cfg, tmp_path)
    assert json.loads((tmp_path / "result.json").read_text()) == result
    assert set(result) == {"status", "test", "val", "untrained", "audit", "protocol", "time"}
    assert set(result["test"]) == {"knn_top1", "knn_top5", "linear_top1", "linear_top5", "few_shot_top1"}
    logged = lines(tmp_path)
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
    assert all(torch.equal(saved[k], v) for k, v in weights(tmp_path).items() if not k.startswith("head."))
    curves = EventAccumulator(str(tmp_path / "tb")).Reload()
    assert {k for k in keys if "/" in k} <= set(curves.Tags()["scalars"]) | {"time/views_per_s"}
    assert curves.Tags()["images"] == ["views"]


def test_done_is_shown_and_not_run_again(composed, tmp_path, stop_after, capsys):
    cfg = composed(*TINY, "epochs=1")
    first = program.run(cfg, tmp_path)
    stop_after(0)  # any step would raise
    assert program.run({**cfg, "log_every": 7}, tmp_path) == first
    assert "done already" in capsys.readouterr().out
    with pytest.raises(KeyboardInterrupt):
        program.run({**cfg, "rerun": True}, tmp_path)
    assert not (tmp_path / "result.json").exists()


def test_other_settings_are_refused_with_the_keys_that_differ(composed, tmp_path):
    program.run(composed(*TINY, "epochs=1"), tmp_path)
    with pytest.raises(ConfigError, match=r"epochs: 1 -> 2; loss.temperature: 0.5 -> 0.2; temperature: 0.5 -> 0.2"):
        program.run(composed(*TINY, "epochs=2", "temperature=0.2"), tmp_path)


def test_other_code_is_shown_and_never_resumed(composed, tmp_path, stop_after, monkeypatch, capsys):
    cfg = composed(*TINY, "epochs=2")
    program.run(cfg, tmp_path / "done")
    stop_after(1438 // 256 + 1)
    with pytest.raises(KeyboardInterrupt):
        program.run(cfg, tmp_path / "stopped")
    stop_after(None)
    monkeypatch.setattr("contrastive.run.environment.code_hash", lambda _: "other")
    program.run(cfg, tmp_path / "done")
    assert "other code" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="rerun=true"):
        program.run(cfg, tmp_path / "stopped")


def test_two_processes_never_share_a_directory(composed, tmp_path, monkeypatch):
    cfg = composed(*TINY, "epochs=1")

    def second(self, *_):
        with pytest.raises(ConfigError, match="another process"):
            program.run(cfg, tmp_path)
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "step", second)
    with pytest.raises(KeyboardInterrupt):
        program.run(cfg, tmp_path)


def test_a_loss_that_is_no_longer_finite_stops_the_run_and_keeps_the_checkpoint(composed, tmp_path, monkeypatch):
    step = Trainer.step
    calls = []

    def broken(self, *arguments):
        loss, *rest = step(self, *arguments)
        calls.append(0)
        return (loss * float("nan") if len(calls) > 5 else loss, *rest)

    monkeypatch.setattr(Trainer, "step", broken)
    with pytest.raises(ConfigError, match="the loss became nan in epoch 2"):
        program.run(composed(*TINY), tmp_path)
    assert torch.load(tmp_path / "checkpoints/last.pt", weights_only=True)["epoch"] == 1


def test_differing_ignores_what_changes_no_result():
    assert differing({"device": "cpu", "knn": {"every": 1}}, {"device": "cuda", "knn": {"every": 5}}) == []
    assert differing({"a": {"b": 1}}, {"a": {}, "c": 2}) == [
        "a: (absent) -> {}",
        "a.b: 1 -> (absent)",
        "c: (absent) -> 2",
    ]


def test_a_torn_log_line_is_cut(composed, tmp_path, stop_after):
    cfg = composed(*TINY)
    program.run(cfg, tmp_path / "whole")
    stop_after(1438 // 256 + 2)
    with pytest.raises(KeyboardInterrupt):
        program.run(cfg, tmp_path / "torn")
    with (tmp_path / "torn/metrics.jsonl").open("a") as file:
        file.write('{"step": 7, "ep')
    shutil.copytree(tmp_path / "torn", tmp_path / "again")
    stop_after(None)
    program.run(cfg, tmp_path / "again")
    assert lines(tmp_path / "again") == lines(tmp_path / "whole")
