"""Breakdowns of training and of the machine: NaN, a full disk, no memory, a dead process, bad paths."""

import contextlib
import errno
import functools
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from contrastive.run.log import Logs
from contrastive.training.step import TrainStep
from tests.forked import at_call
from tests.helpers import (
    BARE,
    TINY,
    check_same,
    logged_lines,
    program,
    saved_weights,
    started,
    wait_for,
)
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
    said = (tmp_path / "said.txt").read_text().splitlines()[-1]
    assert "optimizer.lr" in said
    failure = json.loads((tmp_path / "run/failure.json").read_text())
    if minutes:  # seen at the next log line, three batches after the step whose loss was the first to be NaN
        assert (failure["epoch"], failure["batch"], failure["step"]) == (2, 2, 7)
        assert len(failure["indices"]) == len(failure["labels"]) == 256
        assert failure["loss"][-1] == "nan"
    else:
        assert failure["weights"] == ["encoder.conv1.weight"]
    assert all(torch.isfinite(value).all() for value in saved_weights(tmp_path / "run").values())
    assert torch.load(tmp_path / "run/checkpoints/last.pt", weights_only=True)["step"] == 5


def fill_the_disk() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(("owner", "name", "n"), [(Logs, "add", 3), (Path, "write_text", 0), (Path, "replace", 4)])
def test_a_write_without_space_is_one_sentence(whole, tmp_path, owner, name, n):  # noqa: F811
    assert run(tmp_path, fault=functools.partial(at_call, owner, name, n, fill_the_disk)) == 2
    said = (tmp_path / "said.txt").read_text()
    assert "no space left on device: mend that" in said
    assert "Traceback" not in said
    assert run(tmp_path) == 0
    assert logged_lines(tmp_path / "run") == logged_lines(whole)


@contextlib.contextmanager
def mounted(disk: Path, options: str) -> Iterator[Callable[[str], None]]:
    """A disk in memory; the function given mounts it anew with other options."""

    def remount(changed: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{changed}", disk], check=True)

    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], capture_output=True).returncode != 0:
        pytest.skip("this container may not mount")
    try:
        yield remount
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a disk")
@pytest.mark.parametrize("options", ["size=12k", "size=400k", "size=1m", "ro"])
def test_a_full_or_read_only_disk_is_one_sentence(whole, tmp_path, options):  # noqa: F811
    """Full at the first curves, the first and the second checkpoint; the run goes on when it can."""
    later, sentence = "size=50m", "no space left on device: mend that"
    if options == "ro":
        later, sentence = "rw", "read-only file system: mend that"
    with mounted(tmp_path / "disk", options) as remount:
        path = tmp_path / "disk/run"
        assert run(tmp_path, f"hydra.run.dir={path}") == 2
        said = (tmp_path / "said.txt").read_text()
        assert sentence in said
        assert "Traceback" not in said, said
        remount(later)
        assert run(tmp_path, f"hydra.run.dir={path}") == 0
        check_same(path, whole)


def test_too_little_memory_is_one_sentence_with_the_knobs(tmp_path):
    fault = functools.partial(at_call, TrainStep, "__call__", 0, functools.partial(limit_to_now_and, 2**24))
    # in the first step, with a gigabyte of activations: less can fit into what is free inside this process
    words = ["encoder.width=64", "batch_size=1024", f"hydra.run.dir={tmp_path}/run"]
    assert run(tmp_path, *words, fault=fault) == 2
    said = (tmp_path / "said.txt").read_text()
    assert "too little memory" in said
    assert "grad_cache_chunk" in said
    assert "Traceback" not in said


def limit_to_now_and(more: int) -> None:
    """`ulimit -v`: the memory of this process and a little more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * os.sysconf("SC_PAGE_SIZE") + more
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


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
    assert (
        0 < torch.load(tmp_path / "two/checkpoints/last.pt", weights_only=True)["batch"] <= 89
    )  # the end, at the latest
    again = program(*words, "hydra.run.dir=two", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "batches" in again.stdout
    check_same(tmp_path / "two", tmp_path / "one")
