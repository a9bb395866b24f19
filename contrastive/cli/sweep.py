"""The jobs of a sweep: several at a time on a CPU, and how each of them went."""

import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from multiprocessing import current_process
from pathlib import Path

from contrastive.distributed.cores import n_cores
from contrastive.report.sweep import Job
from contrastive.run.files import read_result

RECORDS = "CONTRASTIVE_SWEEP_RECORDS"  # environment variable: the file that the jobs of a sweep write to
SWEEP = "CONTRASTIVE_SWEEP"  # environment variable: the id of the sweep's process
PARALLEL = "CONTRASTIVE_PARALLEL"  # environment variable: set while runs share a terminal
GPUS = ("/dev/nvidiactl", "/dev/kfd")  # device files of NVIDIA's and AMD's drivers


def is_sweep(words: list[str]) -> bool:
    """Whether the command line asks for several runs."""
    return any(word in ("-m", "--multirun") for word in words)


def choose_launcher(words: list[str], environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The words of a sweep with `hydra/launcher=cores`, and the environment variables that go with it.

    Two runs of one thread each end sooner than one after the other with two threads: 1.3 to 1.5 times on two cores. A
    sweep keeps Hydra's own launcher, one run after the other, beside a GPU, for `devices` > 1 or when a launcher or a
    sweeper is chosen.

    Args:
        words: the command line. environment: of this process; a number of threads chosen there stays.
    """
    own = ("hydra/launcher=", "hydra/sweeper=", "devices=", "device=cuda")
    if n_cores() == 1 or any(word.startswith(own) for word in words):
        return words, {}
    if any(Path(file).exists() for file in GPUS) and "device=cpu" not in words:
        return words, {}
    threads = {} if "OMP_NUM_THREADS" in environment else {"OMP_NUM_THREADS": "1"}
    return [*words, "hydra/launcher=cores"], {PARALLEL: "1", **threads}


@cache
def end_with_sweep() -> None:
    """In a process that runs jobs of a sweep: end it, its run saved, when the sweep's own process is gone.

    Otherwise the jobs of a killed sweep would train on, unseen, and hold directories that the same command needs.
    """
    sweep = int(os.environ.get(SWEEP, os.getpid()))
    if sweep == os.getpid() or current_process().name == "MainProcess":  # one job after the other, or a cluster's
        return

    def watch() -> None:
        while os.getppid() == sweep:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)
        while signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:  # the run is being saved
            time.sleep(0.1)
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def sweep_records() -> Iterator[Path]:
    """A file for the records of a sweep's jobs, named in the environment so that other processes find it."""
    with tempfile.TemporaryDirectory(prefix="contrastive-sweep-") as folder:
        path = Path(folder) / "jobs.jsonl"
        path.touch()
        os.environ[RECORDS], os.environ[SWEEP] = str(path), str(os.getpid())
        try:
            yield path
        finally:
            del os.environ[RECORDS], os.environ[SWEEP]


def record_job(number: int, overrides: list[str], *, path: Path, failure: str | None) -> None:
    """Add one job; nothing where no sweep on this machine started it, as in a job of a cluster."""
    if RECORDS in os.environ and Path(os.environ[RECORDS]).exists():
        line = json.dumps({"number": number, "overrides": overrides, "path": str(path.resolve()), "failure": failure})
        with open(os.environ[RECORDS], "a") as file:
            file.write(line + "\n")


def read_jobs(records: Path) -> list[Job]:
    """The jobs in the order of the sweep, with their results; a dry run has neither result nor failure."""
    jobs = []
    for line in sorted((json.loads(line) for line in records.read_text().splitlines()), key=lambda r: int(r["number"])):
        path, failure = Path(line["path"]), line["failure"]
        jobs.append(Job(line["overrides"], path, None if failure else read_result(path), failure))
    return jobs
