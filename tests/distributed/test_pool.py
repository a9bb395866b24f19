"""Processes of one pool: what they return, how they die, what Ctrl-C and the end of their parent do to them."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from contrastive.distributed.pool import Died, is_in_pool, run_in_processes
from tests import forked
from tests.helpers import ROOT, restore_sigint, wait_for


@dataclass(frozen=True)
class Task:
    """Writes its file, waits, and writes another when it is told to stop."""

    path: Path
    seconds: float = 0
    kill: bool = False

    def __call__(self) -> tuple[bool, str]:
        try:
            self.path.touch()
            if self.kill:
                forked.kill_me()
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            time.sleep(self.seconds)
        except KeyboardInterrupt:
            self.path.with_suffix(".saved").touch()
            raise
        return is_in_pool(), os.environ["OMP_NUM_THREADS"]


@pytest.mark.slow
def test_a_process_that_is_killed_takes_no_other_with_it(tmp_path, monkeypatch):
    forked.start_server()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    tasks = [Task(tmp_path / str(i), kill=i == 1) for i in range(4)]
    results = dict(run_in_processes(iter(tasks), n_parallel=2))
    assert isinstance(results.pop(tasks[1]), Died)
    assert set(results) == {tasks[0], tasks[2], tasks[3]}
    assert {in_pool for in_pool, _ in results.values()} == {True}
    assert not is_in_pool()


@dataclass(frozen=True)
class OnGpu:
    """Returns the GPUs that its process sees; waits until `together` processes are there, or dies."""

    folder: Path
    together: int = 1
    kill: bool = False

    def __call__(self) -> str | None:
        if self.kill:
            forked.kill_me()
        (self.folder / str(os.getpid())).touch()
        deadline = time.monotonic() + 30
        while len(list(self.folder.iterdir())) < self.together and time.monotonic() < deadline:
            time.sleep(0.01)
        return os.environ.get("CUDA_VISIBLE_DEVICES")


def seen_gpus(tasks, *, n_parallel, gpus):
    """What the processes that did not die saw, in order."""
    forked.start_server()
    results = [result for _, result in run_in_processes(tasks, n_parallel=n_parallel, gpus=gpus)]
    return sorted(result for result in results if not isinstance(result, Died))


@pytest.mark.slow
def test_each_process_sees_one_gpu_and_more_of_them_share(tmp_path):
    tasks = [OnGpu(tmp_path, together=5) for _ in range(5)]
    assert seen_gpus(tasks, n_parallel=5, gpus=["2", "GPU-ab"]) == ["2", "2", "2", "GPU-ab", "GPU-ab"]


@pytest.mark.slow
def test_a_process_that_ends_or_dies_gives_its_gpu_back(tmp_path):
    tasks = [OnGpu(tmp_path, kill=i % 2 == 0) for i in range(6)]
    assert seen_gpus(tasks, n_parallel=1, gpus=["7"]) == ["7", "7", "7"]
    both = [OnGpu(tmp_path, kill=True), *(OnGpu(tmp_path) for _ in range(8))]
    assert set(seen_gpus(both, n_parallel=2, gpus=["0", "1"])) == {"0", "1"}


START = """
from pathlib import Path
from contrastive.distributed.pool import run_in_processes
from tests.distributed.test_pool import Task
for task, result in run_in_processes([Task(Path(f"{i}"), seconds=100) for i in range(3)], n_parallel=2):
    print(task, result)
"""


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_jobs_save_and_end_after_ctrl_c_and_with_their_parent(tmp_path, signum):
    env = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    parent = subprocess.Popen(
        [sys.executable, "-c", START], cwd=tmp_path, env={**env, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=restore_sigint,
    )  # fmt: skip
    wait_for(tmp_path / "0", parent)
    wait_for(tmp_path / "1", parent)
    time.sleep(0.2)
    parent.send_signal(signum)
    parent.communicate(timeout=30)  # the pipes close when the last process has gone
    assert (tmp_path / "0.saved").exists()
    assert (tmp_path / "1.saved").exists()
    assert not (tmp_path / "2").exists()
