"""Run the jobs of a table, each a process of its own, several at a time.

The processes are forks of a server that has imported the program and computed nothing: they start at once, where
importing torch takes 4 to 10 seconds.
"""

import fcntl
import json
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
from statistics import mean
from typing import Any

from contrastive.errors import ConfigError
from contrastive.run.files import read_config, read_environment, read_result
from contrastive.run.identity import differences
from contrastive.tables.spec import Row, Table, row_folder
from contrastive.text import format_grid

INTERRUPTED = 130  # train.py's exit code after Ctrl-C

SERVER = multiprocessing.get_context("forkserver")
IMPORTED = ["__main__", "contrastive.experiment.run"]  # by the server
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
    start_server({**os.environ, **({"OMP_NUM_THREADS": "1"} if one_thread else {})})
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


DATA_KEYS = ("dataset", "experiment", "data_root")

ComposeDataset = Callable[[tuple[str, ...]], dict[str, Any]]


def tables_text(
    tables: list[Table], base: Path, *, device: str, on_cpu: bool, n_parallel: int, dataset: ComposeDataset
) -> str:
    """A line for each table.

    Args:
        base: the folder of all tables' runs. device: the name of this device, a CPU or not. n_parallel: runs at a time.
        dataset: words → the resolved node of the dataset.
    """
    rows = [["table", "rows", "runs", "done", "hours left", "missing data"]]
    for table in tables:
        jobs = table_jobs(table, base / table.home)
        if table.script is not None:
            rows.append([table.name, "-", "-", "-", "seconds", ""])
            continue
        n_done = sum(read_result(job.path) is not None for job in jobs)
        on_a_gpu = on_cpu and table.needs_gpu and not any(minutes_taken(job.path, device) for job in jobs)
        hours = hours_left(jobs, device)
        needed = "-" if hours is None else f"{hours:.2g} on a GPU" if on_a_gpu else f"{hours / n_parallel:.2g}"
        missing = "; ".join(str(item).removeprefix("data missing: ") for item in missing_of(jobs, dataset))
        rows.append([table.name, str(len(table.rows)), str(len(jobs)), str(n_done), needed, missing])
    return format_grid(rows)


def hours_left(jobs: list[TableJob], device: str) -> float | None:
    """Hours of the runs that are not done, one after the other; None when nothing tells how long one takes.

    A run takes what the finished runs of its row took on this device, else those of the table, else the minutes that
    the table states.
    """
    taken = {job.path: minutes for job in jobs if (minutes := minutes_taken(job.path, device)) is not None}
    of_table = mean(taken.values()) if taken else None
    total = 0.0
    for job in jobs:
        if read_result(job.path) is not None:
            continue
        of_row = [taken[other.path] for other in jobs if other.row == job.row and other.path in taken]
        expected = mean(of_row) if of_row else of_table if of_table is not None else job.row.minutes
        if expected is None:
            return None
        total += expected
    return total / 60


def minutes_taken(path: Path, device: str) -> float | None:
    """Minutes of a finished run; None when it is not finished or ran on another device."""
    result = read_result(path)
    if result is None:
        return None
    if json.loads((path / "environment.json").read_text())["device"] != device:
        return None
    return float(result["time"]["seconds"]) / 60


@dataclass(frozen=True)
class Missing:
    """Data that a dataset needs: `what` in words, to be put into the folder `where`."""

    what: str
    where: str
    downloads: bool  # whether building the dataset tries to download it

    def __str__(self) -> str:
        return f"data missing: put {self.what} into {self.where}"


def missing_of(jobs: list[TableJob], dataset: ComposeDataset) -> dict[Missing, list[TableJob]]:
    """The data that the jobs need and do not find, each with its jobs; a dataset is composed once."""
    nodes: dict[tuple[str, ...], Missing | None] = {}
    missing: dict[Missing, list[TableJob]] = {}
    for job in jobs:
        words = tuple(word for word in job.words if word.split("=")[0].split(".")[0] in DATA_KEYS)
        if words not in nodes:
            nodes[words] = missing_data(dataset(words))
        if (item := nodes[words]) is not None:
            missing.setdefault(item, []).append(job)
    return missing


# What torchvision looks for below dataset.root: the unpacked folder or the archive that it unpacks.
FILES = {
    "cifar10": ("cifar-10-batches-py", "cifar-10-python.tar.gz"),
    "cifar100": ("cifar-100-python", "cifar-100-python.tar.gz"),
    "stl10": ("stl10_binary", "stl10_binary.tar.gz"),
    "mnist": ("MNIST/raw", "MNIST/raw with its four files (train-images-idx3-ubyte and so on)"),
    "biased_mnist": ("MNIST/raw", "MNIST/raw with its four files (train-images-idx3-ubyte and so on)"),
}


def missing_data(dataset: dict[str, Any]) -> Missing | None:
    """What the dataset's node needs and does not find; None when all is there, or when that is not known.

    Args:
        dataset: the resolved node of the dataset.
    """
    name = str(dataset["_target_"]).rpartition(".")[2]
    root = dataset.get("root")
    if name == "image_folder":
        if root is None:
            return Missing("train/<class>/ and test/<class>/", 'PATH and add ARGS="dataset.root=PATH"', downloads=False)
        has_test = any((Path(root) / name).is_dir() for name in ("test", "val"))
        return (
            None
            if has_test and (Path(root) / "train").is_dir()
            else Missing("train/<class>/ and test/<class>/", str(root), downloads=False)
        )
    if name not in FILES or any((Path(str(root)) / file).exists() for file in FILES[name]):
        return None
    return Missing(FILES[name][1], str(Path(str(root)).resolve()), downloads=True)
