"""The run directory as an object: what is written, by whom."""

import json

import pytest
import torch
from torch import nn

from contrastive.errors import ConfigError
from contrastive.run.directory import open_run
from contrastive.run.weights import save_weights

ENVIRONMENT = {
    "command": "c", "device": "d", "precision": "p", "torch": "t", "commit": "x", "code": "1", "data": "2",
    "threads": 1, "processes": 1, "compile": False,
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
        run.finish({"test": {"knn_top1": 1.0}}, write_weights)
        assert run.result == {"test": {"knn_top1": 1.0}}
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
        run.finish({"test": {"knn_top1": 1.0}}, write_weights)
    modes = {(tmp_path / name).stat().st_mode for name in ("encoder.safetensors", "config.yaml", "result.json")}
    assert len(modes) == 1


def test_rerun_removes_what_was_measured(tmp_path):
    with opened(tmp_path) as run:
        run.log(1, 1.0, {"x": 1.0})
        run.save({"step": 1})
        run.finish({"test": {"knn_top1": 1.0}}, write_weights)
    with opened(tmp_path, config={"a": 2}, rerun=True) as run:
        assert (run.result, run.state) == (None, None)
        assert (tmp_path / "metrics.jsonl").read_text() == ""
    with pytest.raises(ConfigError, match="a: 2 -> 1"), opened(tmp_path):
        pass


def test_rerun_removes_exports_of_the_weights_that_it_replaces(tmp_path):
    with opened(tmp_path) as run:
        run.finish({"test": {"knn_top1": 1.0}}, write_weights)
    (tmp_path / "encoder.onnx").write_text("of the old weights")
    with opened(tmp_path, rerun=True):
        assert not (tmp_path / "encoder.onnx").exists()


@pytest.mark.parametrize("rerun", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "config.yaml",
        "result.json",
        "environment.json",
        "metrics.jsonl",
        "encoder.pth",
        "events.out",
        "checkpoints/last.pt",
    ],
)
def test_a_folder_with_files_of_others_is_left_alone(tmp_path, name, rerun):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text('{"mine": 1}')
    with pytest.raises(ConfigError, match="that no run wrote: try"), opened(tmp_path, rerun=rerun):
        pass
    there = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert {key: text for key, text in there.items() if key != ".lock"} == {name: '{"mine": 1}'}


def test_only_leftovers_of_this_run_are_removed(tmp_path):
    """Two runs below the folder, files of others in it: only what this run's process left is its to remove."""
    own = [tmp_path / place for place in (".config.yaml.17.part", "checkpoints/.last.pt.17.part")]
    others = [tmp_path / place for place in ("seed=0/checkpoints/.last.pt.17.part", ".x.part", ".x.txt.17.part")]
    for path in (*own, *others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    with opened(tmp_path):
        pass
    assert not any(path.exists() for path in own)
    assert all(path.exists() for path in others)
