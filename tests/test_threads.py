"""The number of threads: free cores, as recorded, as typed, as the environment says."""

import json

import pytest
import torch

from contrastive.experiment import threads
from contrastive.experiment.run import run_experiment
from contrastive.experiment.threads import busy_between, busy_cores, choose_threads, most_threads, set_threads
from contrastive.run.identity import differences
from tests.helpers import TINY


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """machine(cores, busy): that many cores, of which others keep some busy."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    def arrange(cores, busy):
        monkeypatch.setattr(threads, "n_cores", lambda: cores)
        monkeypatch.setattr(threads, "busy_cores", lambda: busy)

    yield arrange
    torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("cores", "busy", "limit", "n"),
    [
        (2, 0.0, 2, 2),
        (2, 0.2, 2, 2),
        (2, 1.0, 2, 1),
        (2, 3.0, 2, 1),
        (64, 10.0, 32, 32),
        (64, 60.0, 32, 4),
        (8, 3.4, 8, 5),
    ],
)
def test_auto_leaves_busy_cores_to_others(machine, cores, busy, limit, n):
    machine(cores, busy)
    chosen, reason = choose_threads("auto", None, limit=limit)
    assert chosen == n
    assert (f"threads={limit}" in reason) == (n < limit)


def test_what_is_typed_recorded_or_in_the_environment_comes_first(machine, monkeypatch):
    machine(8, 0.0)
    assert choose_threads("auto", 3, limit=8) == (3, "as before the interruption")
    assert choose_threads(3, None, limit=8) == (3, "")
    assert choose_threads("auto", None, limit=8) == (8, "")
    assert "last ran with 3" in choose_threads(5, 3, limit=8)[1]
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert choose_threads("auto", None, limit=2) == (2, "OMP_NUM_THREADS")
    assert choose_threads("auto", 1, limit=2) == (1, "as before the interruption")  # so that it goes on exactly
    assert choose_threads(4, None, limit=2) == (4, "")


def test_busy_cores_are_counted_between_two_readings():
    before = {0: (100, 1000), 1: (50, 1000)}
    after = {0: (130, 1030), 1: (50, 1030)}
    assert busy_between(before, after) == 1.0
    assert busy_between(before, before) == 0.0
    assert 0 <= busy_cores() <= threads.n_cores() + 0.5


def test_the_choice_is_recorded_and_kept_when_the_run_goes_on(composed, tmp_path, machine, monkeypatch, capsys):
    machine(4, 4.0)
    monkeypatch.setattr(threads, "most_threads", lambda: 2)
    words = ("dataset.size=8", "encoder.width=2", "batch_size=256", "epochs=1", "evaluator=[]")
    run_experiment(composed(*words), tmp_path)
    assert json.loads((tmp_path / "environment.json").read_text())["threads"] == 1
    assert "1 thread (4.0 of 4 cores are busy: threads=2 takes all)" in capsys.readouterr().out
    (tmp_path / "result.json").write_text("null")  # damaged: it is computed again
    machine(4, 0.0)
    assert set_threads("auto", tmp_path, rerun=False) == "1 thread (as before the interruption)"
    assert set_threads("auto", tmp_path, rerun=True) == "2 threads"
    assert torch.get_num_threads() == 2


def test_threads_make_no_other_run(composed):
    one, two = composed(*TINY, "threads=1").to_dict(), composed(*TINY, "threads=2", "quiet=true").to_dict()
    assert differences(one, two) == []
    assert most_threads() >= 1
