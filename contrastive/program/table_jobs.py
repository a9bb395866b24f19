"""Run the jobs of a table, each a process of its own, several at a time."""

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from contrastive.errors import ConfigError
from contrastive.report.rows import Row
from contrastive.report.table import Table, row_folder
from contrastive.run.config import read_config
from contrastive.run.identity import differences
from contrastive.run.result import read_result

INTERRUPTED = 130  # train.py's exit code after Ctrl-C

Compose = Callable[[tuple[str, ...]], dict[str, object]]


@dataclass(frozen=True, kw_only=True)
class TableJob:
    """One run of a table: the words that train.py gets, and the run directory."""

    row: Row
    seed: int
    path: Path

    @property
    def words(self) -> tuple[str, ...]:
        return (*self.row.words, f"seed={self.seed}")

    @property
    def log(self) -> Path:
        return self.path.with_name(f"{self.path.name}.log")

    def __str__(self) -> str:
        return f"{self.row.name}, seed {self.seed}"


def table_jobs(table: Table, base: Path) -> list[TableJob]:
    """A job for each row and seed, its run directory below `base`."""
    return [TableJob(row=row, seed=seed, path=row_folder(row, base) / f"seed={seed}") for row, seed in table.jobs]


def is_done(job: TableJob, compose: Compose) -> bool:
    """Whether the run is finished, with the configuration that the job has now."""
    if read_result(job.path) is None:
        return False
    try:
        return not differences(read_config(job.path), compose(job.words))
    except ConfigError:
        return False


def run_jobs(jobs: Sequence[TableJob], *, program: Sequence[str], n_parallel: int, one_thread: bool) -> list[TableJob]:
    """Run every job; returns those that failed. Each writes what it prints to its log.

    On Ctrl-C the running processes get the signal too, and no other job starts.

    Args:
        program: train.py and flags for it. n_parallel: processes at a time. one_thread: give each process one thread.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1"} if one_thread else dict(os.environ)
    failed: list[TableJob] = []
    lock, counter = threading.Lock(), iter(range(1, len(jobs) + 1))

    def run(job: TableJob) -> None:
        since = time.perf_counter()
        code = _run(job, program, environment)
        with lock:
            place = f"[{next(counter)}/{len(jobs)}] {job}"
            if code == 0:
                print(f"{place}: done in {(time.perf_counter() - since) / 60:.1f} min", flush=True)
            elif code == INTERRUPTED:
                print(f"{place}: interrupted", flush=True)
            else:
                failed.append(job)
                print(f"{place}: FAILED, see {job.log}: {last_line(job.log)}", flush=True)

    pool = ThreadPoolExecutor(n_parallel)
    try:
        for future in [pool.submit(run, job) for job in jobs]:
            future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return failed


def _run(job: TableJob, program: Sequence[str], environment: dict[str, str]) -> int:
    """Run train.py in the job's directory and return its exit code.

    A process that an earlier, killed command left behind is waited for: it may be finishing this very run.
    """
    job.path.mkdir(parents=True, exist_ok=True)
    with (job.path / ".lock").open("a") as file:  # whose process wrote its id into it
        fcntl.flock(file, fcntl.LOCK_EX)
    command = [sys.executable, *program, *job.words, f"hydra.run.dir='{job.path}'"]
    with job.log.open("w") as log:
        log.write(f"{' '.join(command)}\n")
        log.flush()
        return subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, env=environment).returncode


def last_line(log: Path) -> str:
    """The last line that a job printed, which is its error message."""
    lines = [line.strip() for line in log.read_text(errors="replace").replace("\r", "\n").splitlines() if line.strip()]
    return lines[-1] if lines else "no output"
