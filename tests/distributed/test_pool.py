"""Processes of one pool: what they return, how they die, what Ctrl-C and the end of their parent do to them."""

import functools
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from contrastive.distributed.pool import Died, is_in_pool, run_in_processes
from tests import forked
from tests.helpers import ROOT, restore_sigint, wait_for


@dataclass(frozen=True)
class OnGpu:
    """Returns the GPUs that its process sees; waits until `together` processes are there, or is killed."""

    folder: Path
    together: int = 1
    kill: bool = False

    def __call__(self) -> str | None:
        assert is_in_pool()
        if self.kill:
            forked.kill_me()
        (self.folder / str(os.getpid())).touch()
        deadline = time.monotonic() + 30
        while len(list(self.folder.iterdir())) < self.together and time.monotonic() < deadline:
            time.sleep(0.01)
        return os.environ.get("CUDA_VISIBLE_DEVICES")


def seen_gpus(tasks, *, n_parallel, gpus):
    """What the processes saw that were not killed, in order; those that were took no other with them."""
    forked.start_server()
    results = list(run_in_processes(iter(tasks), n_parallel=n_parallel, gpus=gpus))
    assert len(results) == len(tasks)
    assert all(isinstance(result, Died) == task.kill for task, result in results)
    assert not is_in_pool()
    return sorted(result for task, result in results if not task.kill)


@pytest.mark.slow
def test_each_process_sees_one_gpu_and_more_of_them_share(tmp_path):
    tasks = [OnGpu(tmp_path, together=5) for _ in range(5)]
    assert seen_gpus(tasks, n_parallel=5, gpus=["2", "GPU-ab"]) == ["2", "2", "2", "GPU-ab", "GPU-ab"]


@pytest.mark.slow
def test_a_process_that_ends_or_is_killed_takes_no_other_with_it_and_gives_its_gpu_back(tmp_path):
    tasks = [OnGpu(tmp_path, kill=i % 2 == 0) for i in range(6)]
    assert seen_gpus(tasks, n_parallel=1, gpus=["7"]) == ["7", "7", "7"]
    both = [OnGpu(tmp_path, kill=True), *(OnGpu(tmp_path) for _ in range(8))]
    assert set(seen_gpus(both, n_parallel=2, gpus=["0", "1"])) == {"0", "1"}


THREADS = """
import os, torch
from contrastive.distributed.pool import run_in_processes
print([threads for _, threads in run_in_processes([torch.get_num_threads] * 2, n_parallel=2)])
print(os.environ.get("OMP_NUM_THREADS"))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "said"), [({}, "[1, 1]\nNone\n"), ({"OMP_NUM_THREADS": "2"}, "[2, 2]\n2\n")])
def test_processes_have_one_thread_each_and_what_is_started_later_has_all(typed, said):
    env = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    command = [sys.executable, "-c", THREADS]
    assert subprocess.run(command, env={**env, **typed}, cwd=ROOT, capture_output=True, text=True).stdout == said


@dataclass(frozen=True)
class Task:
    """Writes its file, waits, and writes another when it is told to stop."""

    path: Path

    def __call__(self) -> None:
        try:
            self.path.touch()
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            time.sleep(100)
        except KeyboardInterrupt:
            self.path.with_suffix(".saved").touch()
            raise


START = """
from pathlib import Path
from contrastive.distributed.pool import run_in_processes
from tests.distributed.test_pool import Task
for task, result in run_in_processes([Task(Path(f"{i}")) for i in range(3)], n_parallel=2):
    print(task, result)
"""


def parent_of_jobs(folder: Path, **options: Any) -> "subprocess.Popen[str]":
    """A process whose first two jobs have begun."""
    env = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"} | {"PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    parent = subprocess.Popen([sys.executable, "-c", START], cwd=folder, env=env, text=True, **pipes, **options)
    wait_for(folder / "0", parent)
    wait_for(folder / "1", parent)
    time.sleep(0.2)
    return parent


@pytest.mark.slow
def test_jobs_of_the_background_ignore_ctrl_c_as_their_parent_does(tmp_path):
    ignored = functools.partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    parent = parent_of_jobs(tmp_path, start_new_session=True, preexec_fn=ignored)
    os.killpg(parent.pid, signal.SIGINT)
    time.sleep(0.5)
    assert parent.poll() is None and not (tmp_path / "0.saved").exists()
    os.killpg(parent.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_jobs_save_and_end_after_ctrl_c_and_with_their_parent(tmp_path, signum):
    parent = parent_of_jobs(tmp_path, preexec_fn=restore_sigint)
    parent.send_signal(signum)
    parent.communicate(timeout=30)  # the pipes close when the last process has gone
    assert [(tmp_path / name).exists() for name in ("0.saved", "1.saved", "2")] == [True, True, False]
