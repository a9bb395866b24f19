"""Breakdowns of training and of the machine: NaN, a full disk, no memory, a dead process, bad paths."""

import functools
import json
import os
import signal
import time
from pathlib import Path

import pytest
import torch

from contrastive.training.step import TrainStep
from tests.helpers import BARE, TINY, check_same, program, saved_weights, started, wait_for
from tests.run.test_faults import run, whole  # noqa: F401  a fixture

resource = pytest.importorskip("resource")  # not on Windows

pytestmark = pytest.mark.slow


def break_weights(after: int) -> None:
    """Make the encoder's first weight NaN when so many steps are done."""
    step, done = TrainStep.__call__, iter(range(10**9))

    def broken(self, *arguments):
        output = step(self, *arguments)
        if next(done) == after:
            with torch.no_grad():
                next(self.encoder.parameters()).view(-1)[0] = float("nan")
        return output

    TrainStep.__call__ = broken


@pytest.mark.parametrize("minutes", [pytest.param(15, marks=pytest.mark.smoke), 0])
def test_nan_stops_the_run_and_never_reaches_a_checkpoint(tmp_path, minutes):
    fault = functools.partial(break_weights, 5)  # after the first step of the second epoch
    assert run(tmp_path, f"checkpoint_every_minutes={minutes}", "log_every=5", fault=fault) == 2
    assert "optimizer.lr" in (tmp_path / "said.txt").read_text().splitlines()[-1]
    failure = json.loads((tmp_path / "run/failure.json").read_text())
    if minutes:  # seen at the next log line, three batches after the step whose loss was the first to be NaN
        assert (failure["epoch"], failure["batch"], failure["step"]) == (2, 2, 7)
        assert len(failure["indices"]) == len(failure["labels"]) == 256
        assert failure["loss"][-1] == "nan"
    else:
        assert failure["weights"] == ["encoder.conv1.weight"]
    assert all(torch.isfinite(value).all() for value in saved_weights(tmp_path / "run").values())
    assert torch.load(tmp_path / "run/checkpoints/last.pt", weights_only=True)["step"] == 5


def no_file_above(size: int) -> None:
    """As on a full disk, a write beyond it fails."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("size", [4_000, 40_000, 400_000])
def test_a_write_that_fails_is_one_sentence_and_the_run_goes_on_when_it_can(whole, tmp_path, size):  # noqa: F811
    assert run(tmp_path, fault=functools.partial(no_file_above, size)) == 2
    said = (tmp_path / "said.txt").read_text()
    assert "file too large: mend that" in said and "Traceback" not in said
    assert run(tmp_path) == 0
    check_same(tmp_path / "run", whole)


def test_a_dead_process_of_two_ends_the_other_with_its_reason(tmp_path):
    process = started(*TINY, "epochs=400", "devices=2", "hydra.run.dir=run", cwd=tmp_path)
    wait_for(tmp_path / "run/checkpoints/last.pt", process)
    workers = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    workers = [pid for pid in workers if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]
    since = time.monotonic()
    os.kill(workers[1], signal.SIGKILL)
    _, said = process.communicate(timeout=100)
    assert time.monotonic() - since < 60
    assert process.returncode == 1
    assert "SIGKILL" in said or "Traceback" in said
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


def test_sigterm_of_two_processes_resumes_exactly(tmp_path):
    words = [*BARE, "epochs=1", "batch_size=16", "devices=2", "evaluator=[]", "precision=fp32"]
    one = program(*words, "hydra.run.dir=one", cwd=tmp_path)
    assert one.returncode == 0, one.stderr
    process = started(*words, "hydra.run.dir=two", "checkpoint_every_minutes=0.01", cwd=tmp_path)
    wait_for(tmp_path / "two/checkpoints/last.pt", process)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=100)
    assert process.returncode == 143, said
    assert "the same command again" in said.splitlines()[-1]
    batch = torch.load(tmp_path / "two/checkpoints/last.pt", weights_only=True)["batch"]
    assert 0 < batch <= 89  # the end, at the latest
    again = program(*words, "hydra.run.dir=two", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "batches" in again.stdout
    check_same(tmp_path / "two", tmp_path / "one")
