"""Run the jobs of a table, each a process of its own, several at a time.

The processes are forks of a server that has imported the program and computed nothing: they start at once, where
importing torch takes 4 to 10 seconds.
"""

import fcntl
import multiprocessing
import os
import runpy
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import connection, forkserver
from pathlib import Path

from contrastive.errors import ConfigError
from contrastive.program.malloc import tuned_environment
from contrastive.report.rows import Row
from contrastive.report.table import Table, row_folder
from contrastive.run.config import read_config
from contrastive.run.environment_file import read_environment
from contrastive.run.identity import differences
from contrastive.run.result import read_result

INTERRUPTED = 130  # train.py's exit code after Ctrl-C

SERVER = multiprocessing.get_context("forkserver")
IMPORTED = ["__main__", "contrastive.program.experiment"]  # by the server
_ONE_AT_A_TIME = threading.Lock()  # multiprocessing looks after all children whenever one is started

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
    """Whether the run is finished and whole, with the configuration that the job has now."""
    if read_result(job.path) is None:
        return False
    try:
        read_environment(job.path)
        return not differences(read_config(job.path), compose(job.words))
    except ConfigError:
        return False


def run_jobs(jobs: Sequence[TableJob], *, program: Sequence[str], n_parallel: int, one_thread: bool) -> list[TableJob]:
    """Run every job; returns those that failed. Each writes what it prints to its log.

    On Ctrl-C the running processes get the signal too, and no other job starts.

    Args:
        program: train.py and flags for it. n_parallel: processes at a time. one_thread: give each process one thread.
    """
    if not jobs:
        return []
    start_server({**os.environ, **tuned_environment(), **({"OMP_NUM_THREADS": "1"} if one_thread else {})})
    failed: list[TableJob] = []
    lock, counter = threading.Lock(), iter(range(1, len(jobs) + 1))

    def run(job: TableJob) -> None:
        since = time.perf_counter()
        code = _run(job, program)
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


def start_server(environment: dict[str, str]) -> None:
    """Start the server, unless it runs already, with variables that only count when a process starts.

    The server and its processes begin with Ctrl-C held back: one that came while they begin is heard in `_start`.
    """
    before, mask = dict(os.environ), signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ.update(environment)
    try:
        SERVER.set_forkserver_preload(IMPORTED)
        forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ.update(before)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _run(job: TableJob, program: Sequence[str]) -> int:
    """Run train.py in the job's directory and return its exit code.

    A process that an earlier, killed command left behind is waited for: it may be finishing this very run.
    """
    job.path.mkdir(parents=True, exist_ok=True)
    with (job.path / ".lock").open("a") as file:  # whose process wrote its id into it
        fcntl.flock(file, fcntl.LOCK_EX)
    argv = [*program, *job.words, f"hydra.run.dir='{job.path}'"]
    job.log.write_text(f"{shlex.join([sys.executable, *argv])}\n")
    process = SERVER.Process(target=_start, args=(argv, job.log))
    try:
        with _ONE_AT_A_TIME:
            process.start()
        connection.wait([process.sentinel])
        with _ONE_AT_A_TIME:
            process.join()
    except (OSError, EOFError) as error:
        with job.log.open("a") as log:
            log.write(f"the process could not be started ({error}): try the same command again\n")
        return 1
    assert process.exitcode is not None
    return process.exitcode


def _start(argv: list[str], log: Path) -> None:
    """Become `python ARGV`, whose output goes to the log."""
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(output, stream)
    sys.argv, sys.orig_argv = argv, [sys.executable, *argv]
    sys.path.insert(0, str(Path(argv[0]).parent))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(INTERRUPTED))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # a Ctrl-C that was held back ends the process here
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        runpy.run_path(argv[0], run_name="__main__")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def last_line(log: Path) -> str:
    """The last line that a job printed, which is its error message."""
    lines = [line.strip() for line in log.read_text(errors="replace").replace("\r", "\n").splitlines() if line.strip()]
    return lines[-1] if lines else "no output"
