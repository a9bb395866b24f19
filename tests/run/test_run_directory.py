"""The run directory as an object: what is written, by whom."""

import errno
import hashlib
import json
import os
import threading
from pathlib import Path

import pytest
import torch
from torch import nn

from contrastive.errors import ConfigError
from contrastive.experiment.summary import show_finished
from contrastive.files import file_hash
from contrastive.run import checkpoint
from contrastive.run.directory import open_run, run_files
from contrastive.run.files import read_environment, read_result
from contrastive.run.provenance import code_record
from contrastive.run.run import done_already, read_run
from contrastive.run.weights import save_weights
from tests.helpers import EMPTY_RESULT, SOUND_CONFIG, write_files
from tests.run.test_weights import Command

ENVIRONMENT = {
    "command": "c", "device": "d", "precision": "p", "torch": "t", "commit": "x", "code": "1", "data": "2",
    "threads": 1, "processes": 1, "compile": False, "dirty": False, "modules": {},
}  # fmt: skip
CONFIG = {**SOUND_CONFIG, "epochs": 1, "temperature": 0.5}
RESULT = {key: value for key, value in EMPTY_RESULT.items() if key != "log"} | {"test": {"knn_top1": 1.0}}
STATE = {"step": 1, "epoch": 1, "batch": 0, "seconds": 1.0, "process": None}


def write_weights(path):
    for name in ("encoder.safetensors", "head.safetensors"):
        save_weights(path / name, nn.Linear(1, 1), node={}, run={})
    return {}


def opened(path, **changed):
    return open_run(path, **{"config": CONFIG, "environment": ENVIRONMENT, "rerun": False, **changed})


def interrupt(path, **changed):
    with opened(path, **changed) as run:
        run.log(1, 1.0, {"x": 1.0})
        run.save(STATE)


def finish(path, **changed):
    with opened(path, **changed) as run:
        run.finish(RESULT, write_weights)


def test_a_read_only_directory_writes_nothing(tmp_path):
    with opened(tmp_path, writable=False) as run:
        run.log(1, 1.0, {"x": 1.0})
        run.save(STATE)
        run.finish(RESULT, write_weights)
        assert run.result == RESULT
    assert list(tmp_path.iterdir()) == []


def test_other_arithmetic_is_said(tmp_path, capsys):
    keys = ("processor", "precision", "torch", "compile", "cudnn_benchmark", "deterministic")
    for value in ("one", "one", "other"):
        interrupt(tmp_path, environment={**ENVIRONMENT, **dict.fromkeys(keys, value)})
    said = capsys.readouterr().out.splitlines()
    assert said == [f"warning: {key} one before and other now: the last bits may differ" for key in keys]


def test_lines_after_the_checkpoint_are_cut(tmp_path):
    with opened(tmp_path) as run:
        run.log(1, 1.0, {"x": 1.0})
        run.save(STATE)
        run.log(2, 2.0, {"x": 2.0})
    with opened(tmp_path) as run:
        assert (run.state["step"], run.state["epoch"], run.state["logs"]["lines"]) == (1, 1, 1)
        run.log(2, 2.0, {"x": 3.0})
    assert [json.loads(line)["x"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == [1.0, 3.0]
    recorded = json.loads((tmp_path / "environment.json").read_text())
    assert [session["commit"] for session in recorded["earlier"]] == ["x"]


def saved_step(path):
    return torch.load(path, weights_only=True)["step"]


def test_a_run_goes_on_while_its_checkpoint_is_written_and_the_next_and_the_result_wait(tmp_path, monkeypatch):
    last, previous = tmp_path / "checkpoints/last.pt", tmp_path / "checkpoints/previous.pt"
    gate, save, seen = threading.Event(), checkpoint.save_checkpoint, []

    def held(*arguments, **options):
        assert gate.wait(30)
        gate.clear()  # the next one is written when it is set again
        save(*arguments, **options)

    def write_after_both(path):
        seen.append((saved_step(previous), saved_step(last)))
        return write_weights(path)

    monkeypatch.setattr(checkpoint, "save_checkpoint", held)
    with opened(tmp_path) as run:
        run.save(STATE)
        run.log(2, 2.0, {"x": 2.0})
        assert not last.exists()
        threading.Timer(0.2, gate.set).start()
        run.save({**STATE, "step": 2})
        assert saved_step(last) == 1
        assert torch.load(last, weights_only=True)["logs"]["lines"] == 0  # as it was at the call
        assert run.writer.seconds > 0
        gate.set()
        run.finish(RESULT, write_after_both)
    assert seen == [(1, 2)]


def flip(path):
    """Change four bytes of the largest tensor's part of a file."""
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 4] = bytes(byte ^ 0xFF for byte in content[middle : middle + 4])
    path.write_bytes(content)


def change_log(old, new):
    """Of the last line, which the newest checkpoint alone counts."""

    def change(path):
        log = path.parents[1] / "metrics.jsonl"
        head, _, tail = log.read_text().rpartition(old)
        log.write_text(head + new + tail)

    return change


DAMAGES = {
    "flip": flip,
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "empty": lambda path: path.write_bytes(b""),
    "remove": Path.unlink,
    "program": lambda path: torch.save({"encoder": Command(os.system, "touch EVIL")}, path),
    "edited log": change_log("1.5", "1.4"),
    "lost line": change_log("\n", ""),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path, capsys, monkeypatch, damage):
    monkeypatch.chdir(tmp_path)
    last, previous = tmp_path / "checkpoints/last.pt", tmp_path / "checkpoints/previous.pt"
    for step in (1, 2):
        with opened(tmp_path) as run:
            run.log(step, 1.0, {"x": 1.5})
            run.save({**STATE, "step": step, "weights": torch.ones(5000)})
    DAMAGES[damage](last)
    with opened(tmp_path) as run:
        assert run.state["step"] == saved_step(last) == 1
        assert not previous.exists()  # the next checkpoint must not put the damaged one here
    assert ": continuing from previous.pt" in capsys.readouterr().out
    for path in (last, previous):
        path.write_bytes(b"damaged, too")
    with pytest.raises(ConfigError, match=r"no checkpoint can be used .*: try rerun=true"):
        interrupt(tmp_path)
    assert not (tmp_path / "EVIL").exists()


@pytest.mark.parametrize("key", ["config", "data"])
def test_a_checkpoint_of_another_run_is_not_read(tmp_path, key):
    made_by = {"config": "a", "data": "b", "code": "c"}
    logs = {"lines": 0, "sha256": hashlib.sha256().hexdigest()}
    checkpoint.save_checkpoint(tmp_path, {**STATE, "logs": logs}, made_by=made_by)
    path = tmp_path / "checkpoints/last.pt"
    assert checkpoint.read_checkpoint(path, made_by={**made_by, "code": "other"})["step"] == 1
    with pytest.raises(checkpoint.CheckpointError, match=f"is of another run: other {key}"):
        checkpoint.read_checkpoint(path, made_by={**made_by, key: "other"})


LATER = {"save": lambda run: run.save({**STATE, "step": 2}), "wait": lambda run: run.wait(), "close": id,
         "finish": lambda run: run.finish(RESULT, write_weights)}  # fmt: skip


@pytest.mark.parametrize("later", LATER)
def test_a_checkpoint_that_cannot_be_written_is_an_error_of_its_run(tmp_path, monkeypatch, later):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def save():
        with opened(tmp_path) as run:
            run.save(STATE)
            LATER[later](run)

    monkeypatch.setattr(checkpoint, "save_checkpoint", full)
    with pytest.raises(OSError, match="No space left"):
        save()
    assert not (tmp_path / "result.json").exists()


def test_a_run_that_ends_while_it_is_made_or_removed_is_none(tmp_path, monkeypatch):
    """config.yaml is written last and removed last, and result.json removed first."""
    kinds = []

    def stopped(*_, **__):
        kinds.append(read_run(tmp_path).kind)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("contrastive.run.directory.write_text", stopped)  # of environment.json
        with pytest.raises(KeyboardInterrupt), opened(tmp_path):
            pass
    assert kinds == [read_run(tmp_path).kind] == ["empty"]
    interrupt(tmp_path)
    finish(tmp_path)
    names = [file.name for file in run_files(tmp_path)]
    assert (names[0], names[-1]) == ("result.json", "config.yaml")


def test_rerun_removes_what_was_measured_and_exported(tmp_path):
    interrupt(tmp_path)
    finish(tmp_path)
    exported = ("encoder.onnx", "encoder.pt2", "show.html", "events.out.tfevents.1")
    for name in exported:
        (tmp_path / name).write_text("of the old weights")
    modes = {(tmp_path / name).stat().st_mode for name in ("encoder.safetensors", "config.yaml", "result.json")}
    assert len(modes) == 1  # weights are as readable as every other file
    with opened(tmp_path, config={**CONFIG, "temperature": 0.2}, rerun=True) as run:
        assert (run.result, run.state) == (None, None)
        assert (tmp_path / "metrics.jsonl").read_text() == ""
        assert not any((tmp_path / name).exists() for name in exported)
    with pytest.raises(ConfigError, match=r"temperature: 0\.2 -> 0\.5"), opened(tmp_path):
        pass


def test_a_job_that_is_started_again_goes_on_in_spite_of_rerun(tmp_path, monkeypatch):
    """Slurm puts it back into the queue with the same words: its checkpoint is its own."""
    finish(tmp_path)
    for n, (job, restarts) in enumerate([("7", None), ("7", "1"), ("7", None), ("8", "1")]):
        monkeypatch.setenv("SLURM_JOB_ID", job)
        monkeypatch.delenv("SLURM_RESTART_COUNT", raising=False)
        if restarts is not None:
            monkeypatch.setenv("SLURM_RESTART_COUNT", restarts)
        with opened(tmp_path, environment={**ENVIRONMENT, "job": job}, rerun=True) as run:
            assert run.result is None
            assert (run.state is not None) == (n == 1)
            run.log(1, 1.0, {"x": 1.0})
            run.save(STATE)


def test_what_a_service_shows_of_a_run_is_not_continued_by_other_code(tmp_path):
    """A run that broke down before its first checkpoint, and the same command after its code was mended."""
    with opened(tmp_path):
        write_files(tmp_path, {"trackers/wandb.json": '{"name": "x", "lines": 3}'})
    with opened(tmp_path):
        assert (tmp_path / "trackers/wandb.json").exists()
    with opened(tmp_path, environment={**ENVIRONMENT, "code": "mended"}):
        assert not (tmp_path / "trackers/wandb.json").exists()


@pytest.mark.parametrize("rerun", [False, True])
@pytest.mark.parametrize("name", ["config.yaml", "result.json", "encoder.onnx", "events.out", "checkpoints/last.pt"])
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
    write_files(tmp_path, dict.fromkeys(map(str, (*own, *others)), "x"))
    with opened(tmp_path):
        pass
    assert not any(path.exists() for path in own)
    assert all(path.exists() for path in others)


def test_run_state_of_every_kind(tmp_path):
    run = tmp_path / "run"
    assert read_run(run).kind == "empty"
    with opened(run):
        assert read_run(run).kind == "empty"  # nothing to go on from
        with pytest.raises(ConfigError, match=rf"another process \(pid {os.getpid()} on"), opened(run):
            pass
    interrupt(run)
    found = read_run(run)
    assert (found.kind, found.config, found.environment) == ("resumable", CONFIG, read_environment(run))
    finish(run)
    assert read_run(run).kind == "finished"
    assert read_run(run).result == read_result(run)
    edited = (run / "result.json").read_text().replace("1.0", "2.0")
    (run / "result.json").write_text(edited)  # its checksum is that of another figure
    assert read_run(run).kind == "resumable"
    (run / "checkpoints/last.pt").unlink()
    assert read_run(run).kind == "damaged"
    assert "result.json is damaged: try rerun=true" in read_run(run).reason
    (run / "config.yaml").write_text("a: [")
    assert "config.yaml is missing or damaged: try rerun=true" in read_run(run).reason


@pytest.mark.parametrize(
    ("is_finished", "name", "own"),
    [(False, {}, r"hydra\.run\.dir=PATH"), (True, {"name": None}, r"dataset\.name=NAME")],
)
def test_other_data_is_another_run_whether_it_is_finished_or_not(tmp_path, is_finished, name, own):
    config = {**CONFIG, "dataset": {**CONFIG["dataset"], **name}}
    own_files = {**ENVIRONMENT, "files": {"root": {"path": "/a/im", "listing": "1"}}}
    interrupt(tmp_path, config=config, environment=own_files)
    if is_finished:
        finish(tmp_path, config=config, environment=own_files)
    moved = {**ENVIRONMENT, "files": {"root": {"path": "/b/im", "listing": "2"}}}
    with pytest.raises(ConfigError, match=rf"other data \(/a/im\) than now \(/b/im\): try {own}"):
        interrupt(tmp_path, config=config, environment={**moved, "data": "other"})
    with opened(tmp_path, config=config, environment=moved) as run:
        assert (run.result is not None) == is_finished


@pytest.mark.parametrize("key", ["weights", "bias_from", "bias_labels"])
def test_other_weights_and_bias_labels_refuse_a_resume(tmp_path, key):
    interrupt(tmp_path)
    with pytest.raises(ConfigError, match=f"interrupted with other {key} and"):
        interrupt(tmp_path, environment={**ENVIRONMENT, key: "other", "code": "other"})


def test_other_code_resumes_warns_and_is_recorded(tmp_path, capsys):
    sessions = [{**ENVIRONMENT, "code": code, "commit": f"commit of {code}"} for code in "1223"]
    for environment in sessions:
        interrupt(tmp_path, environment=environment)
    assert capsys.readouterr().out.count("the code changed since the run was interrupted: the run continues") == 2
    finish(tmp_path, environment=sessions[-1])
    earlier = json.loads((tmp_path / "environment.json").read_text())["earlier"]
    assert [session["commit"] for session in earlier] == [f"commit of {code}" for code in "1223"]
    changes = [{"commit": f"commit of {code}", "dirty": False, "package": None, "modules": {}}
               for code in "23"]  # fmt: skip
    for name in ("result.json", "environment.json"):
        assert json.loads((tmp_path / name).read_text())["resumed_with"] == changes
    finish(tmp_path, rerun=True)
    assert "resumed_with" not in json.loads((tmp_path / "result.json").read_text())


def test_a_finished_run_says_what_changed_since(tmp_path, monkeypatch):
    start, run, insects = tmp_path / "start.pth", tmp_path / "run", tmp_path / "insects"
    start.write_text("weights")
    evaluator = {"transfer": {"datasets": ["digits", str(insects)]}}
    config = {**CONFIG, "encoder": {**CONFIG["encoder"], "weights": str(start)}, "evaluator": evaluator}
    config["bias_from"] = str(start)
    environment = {**ENVIRONMENT, **code_record(config), **dict.fromkeys(("weights", "bias_from"), file_hash(start))}
    assert done_already(run, config) is None
    with opened(run, config=config, environment=environment) as one:
        one.log(1, 1.0, {"x": 1.0})
        one.finish(RESULT, write_weights)
    assert done_already(run, {**config, "temperature": 0.2}) is None
    assert done_already(run, config).result == read_result(run)
    assert not done_already(run, config).warnings
    start.write_text("other weights")
    insects.mkdir()
    monkeypatch.setattr("contrastive.run.run.code_record", lambda config: {"code": "other"})
    (run / "head.safetensors").unlink()
    (run / "metrics.jsonl").unlink()
    missing, log, changed = done_already(run, config).warnings
    assert "head.safetensors is missing: remove result.json" in missing
    assert log == "metrics.jsonl was changed after the run: rerun=true starts it over"
    assert changed == "changed since it was made: code, weights, bias_from, transfer; rerun=true replaces it"


def test_a_finished_run_says_how_to_add_evaluators(composed, tmp_path, capsys):
    config = composed("evaluator=[knn]").to_dict()
    finish(tmp_path, config=config, environment={**ENVIRONMENT, **code_record(config)})
    for words, missing in (
        (["evaluator=[knn,rankme]", "evaluator.knn.k=7"], "knn,rankme"),
        (["evaluator=[knn]"], None),
    ):
        assert show_finished(composed(*words), tmp_path)["test"] == RESULT["test"]
        said = capsys.readouterr().out
        assert "is done already" in said and ("Not computed yet" in said) == (missing is not None)
        assert missing is None or f"contrastive evaluate {tmp_path} 'evaluator=[{missing}]'" in said
        assert show_finished(composed(*words, "epochs=3"), tmp_path) is None
