"""`contrastive runs` tells apart what runs, what was interrupted and what is done."""

import json
from pathlib import Path

import pytest

from contrastive.cli import runs
from contrastive.errors import ConfigError
from contrastive.run.files import files_below, lock
from contrastive.run.log import read_points
from tests.helpers import SOUND_CONFIG, SOUND_ENVIRONMENT, write_files


def make_run(path: Path, *, epoch: float, checkpoint: bool = True) -> None:
    (path / "checkpoints").mkdir(parents=True)
    (path / "config.yaml").write_text(json.dumps({**SOUND_CONFIG, "epochs": 40}))  # JSON is YAML
    (path / "environment.json").write_text(json.dumps(SOUND_ENVIRONMENT))
    (path / "metrics.jsonl").write_text(json.dumps({"step": 1, "epoch": epoch}) + "\n")
    if checkpoint:
        (path / "checkpoints/last.pt").write_bytes(b"")


def test_states_and_epochs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path / "interrupted", epoch=12.0)
    make_run(tmp_path / "running", epoch=3.5)
    make_run(tmp_path / "early", epoch=0.5, checkpoint=False)
    make_run(tmp_path / "broken", epoch=1.0)
    (tmp_path / "broken/failure.json").write_text(json.dumps({"reason": "a loss that is not finite"}))
    with lock(tmp_path / "running"):
        assert runs.main([str(tmp_path)]) == 0
    lines = {line.rpartition("/")[2]: line.split() for line in capsys.readouterr().out.splitlines() if "/" in line}
    assert lines["interrupted"][:2] == ["interrupted", "12/40"]
    assert lines["running"][:2] == ["running", "3/40"]
    assert lines["early"][:3] == ["stopped", "early", "0/40"]
    assert lines["broken"][0] == "failed"


def test_a_torn_log_is_the_trouble_of_its_run_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("whole", "torn", "damaged"):
        make_run(tmp_path / name, epoch=12.0)
    with (tmp_path / "torn/metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "epo')  # stopped while it wrote, or looked at meanwhile
    with (tmp_path / "damaged/metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "epo\n{"step": 2, "epoch": 13.0}\n')
    assert runs.main([str(tmp_path)]) == 0
    out = capsys.readouterr().out
    lines = {line.rpartition("/")[2]: line.split() for line in out.splitlines() if "/" in line}
    assert lines["whole"][:2] == lines["torn"][:2] == ["interrupted", "12/40"]
    assert lines["damaged"][0] == "damaged" and out.endswith("2 interrupted, 1 damaged\n")
    with pytest.raises(ConfigError, match=r"is damaged \(.*: try the command of the run again, which resumes it"):
        read_points(tmp_path / "damaged")


def test_a_config_of_another_program_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path / "run", epoch=12.0)
    write_files(tmp_path, {"run/wandb/run-1/files/config.yaml": "_wandb: {}\n"})
    assert runs.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith("\n1 interrupted\n")


def test_no_run_ends_in_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert runs.main([str(tmp_path)]) == 2
    assert "try python train.py" in capsys.readouterr().err


def test_runs_in_linked_folders_are_found_once(tmp_path):
    write_files(tmp_path, {"scratch/a/result.json": "{}"})
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs/cifar10").symlink_to(tmp_path / "scratch")
    (tmp_path / "scratch/circle").symlink_to(tmp_path / "outputs")
    assert files_below(tmp_path / "outputs", "result.json") == [tmp_path / "outputs/cifar10/a/result.json"]
