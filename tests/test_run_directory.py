"""The run directory as an object: what is written, by whom."""

import json

import pytest
import torch
from torch import nn

from contrastive.errors import ConfigError
from contrastive.run.directory import open_run
from contrastive.weights.metadata import save_weights

ENVIRONMENT = {
    "command": "c", "device": "d", "precision": "p", "torch": "t", "commit": "x", "code": "1", "data": "2",
    "threads": 1, "processes": 1,
}  # fmt: skip


def write_weights(path):
    save_weights(path / "encoder.safetensors", nn.Linear(1, 1), node={}, run={})


def opened(path, **changed):
    arguments = {"config": {"a": 1}, "environment": ENVIRONMENT, "rerun": False, **changed}
    return open_run(path, **arguments)


def test_a_read_only_directory_writes_nothing(tmp_path):
    with opened(tmp_path, writable=False) as run:
        run.log(1, 1.0, {"x": 1.0})
        run.log_image(1, "x", torch.zeros(3, 4, 4))
        run.log_histogram(1, "x", torch.zeros(3))
        run.save({"step": 1})
        run.finish({"status": "done"}, write_weights)
        assert run.result == {"status": "done"}
    assert list(tmp_path.iterdir()) == []


def test_lines_after_the_checkpoint_are_cut(tmp_path):
    with opened(tmp_path) as run:
        run.log(1, 1.0, {"x": 1.0})
        run.save({"step": 1, "epoch": 1})
        run.log(2, 2.0, {"x": 2.0})
    with opened(tmp_path) as run:
        assert (run.state["step"], run.state["epoch"], run.state["logs"]["lines"]) == (1, 1, 1)
        run.log(2, 2.0, {"x": 3.0})
    values = [json.loads(line)["x"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert values == [1.0, 3.0]
    recorded = json.loads((tmp_path / "environment.json").read_text())
    assert [session["commit"] for session in recorded["earlier"]] == ["x"]


def test_weights_are_as_readable_as_every_other_file(tmp_path):
    with opened(tmp_path) as run:
        run.finish({"status": "done"}, write_weights)
    modes = {(tmp_path / name).stat().st_mode for name in ("encoder.safetensors", "config.yaml", "result.json")}
    assert len(modes) == 1


def test_rerun_removes_what_was_measured(tmp_path):
    with opened(tmp_path) as run:
        run.log(1, 1.0, {"x": 1.0})
        run.save({"step": 1})
        run.finish({"status": "done"}, write_weights)
    with opened(tmp_path, config={"a": 2}, rerun=True) as run:
        assert (run.result, run.state) == (None, None)
        assert (tmp_path / "metrics.jsonl").read_text() == ""
    with pytest.raises(ConfigError, match="a: 2 -> 1"), opened(tmp_path):
        pass
