"""The number of threads: as before an interruption, as typed, else torch's own; and the warning of a busy machine."""

import json

import pytest
import torch

from contrastive.experiment import machine
from contrastive.experiment.machine import busy_warning, set_threads
from contrastive.experiment.run import run_experiment


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    """torch's own number is 2."""
    monkeypatch.setattr(machine, "own_threads", lambda: 2)
    yield
    torch.set_num_threads(1)


@pytest.mark.parametrize(("busy", "cores", "threads", "warns"), [
    (0.2, 2, 2, False), (1.0, 2, 2, True), (2.0, 2, 1, False), (3.0, 8, 2, False), (7.0, 8, 8, True),
])  # fmt: skip
def test_busy_machine_warns(monkeypatch, busy, cores, threads, warns):
    monkeypatch.setattr(machine, "n_cores", lambda: cores)
    monkeypatch.setattr(machine, "n_busy", lambda: busy)
    torch.set_num_threads(threads)
    assert ("try threads=1 (or OMP_NUM_THREADS=1)" in busy_warning()) == warns


def test_resume_keeps_the_number_of_threads(composed, tmp_path):
    words = ("dataset.size=8", "encoder.width=2", "batch_size=256", "epochs=1", "evaluator=[]", "threads=1")
    run_experiment(composed(*words), tmp_path)
    assert json.loads((tmp_path / "environment.json").read_text())["threads"] == 1
    assert set_threads("auto", tmp_path, rerun=False) == "2 threads"  # a finished run is not resumed
    assert torch.get_num_threads() == 2
    (tmp_path / "result.json").write_text("null")  # damaged: it is computed again
    assert set_threads("auto", tmp_path, rerun=False) == "1 thread (as before the interruption)"
    assert torch.get_num_threads() == 1
    assert set_threads(3, tmp_path, rerun=False).startswith("3 threads (it last ran with 1: metrics may differ")
    assert set_threads("auto", tmp_path, rerun=True) == "2 threads"
    assert set_threads(1, tmp_path / "new", rerun=False) == "1 thread"
