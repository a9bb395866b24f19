"""train.py in processes that start at once: forks of a server which has imported everything and computed nothing."""

import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from tests.helpers import ROOT

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["tests.preload"])
Fault = Callable[[], None]


class Program:
    """`train.py WORDS` as a process of its own.

    Args:
        cwd: the folder that it runs in; its output goes to a file there. fault: called in the process before it starts.
        threads: OMP_NUM_THREADS.
    """

    def __init__(self, *words: str, cwd: Path, fault: Fault | None = None, threads: int = 1) -> None:
        self.log = cwd / "said.txt"
        self.process = SERVER.Process(target=_main, args=(words, cwd, self.log, fault, threads))
        self.process.start()

    def wait(self) -> int:
        """The exit code; -9 after kill -9."""
        self.process.join(120)
        assert self.process.exitcode is not None, self.said
        return self.process.exitcode

    def send(self, signum: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, signum)

    @property
    def said(self) -> str:
        """stdout and stderr."""
        return self.log.read_text()


def _main(words: tuple[str, ...], cwd: Path, log: Path, fault: Fault | None, threads: int) -> None:
    import torch

    os.chdir(cwd)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ["GLIBC_TUNABLES"] = ""  # else train.py starts itself once more
    os.environ["PYTHONPATH"] = str(ROOT)  # for the processes of devices=2
    torch.set_num_threads(threads)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if fault is not None:
        fault()
    sys.argv = [str(ROOT / "train.py"), *words]
    sys.orig_argv = [sys.executable, *sys.argv]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def at_call(owner: type, name: str, n: int, action: Callable[[], None]) -> None:
    """Run `action` before the n-th call (from 0) of a method, in this process."""
    method, calls = getattr(owner, name), iter(range(10**9))

    def counted(*arguments, **options):
        if next(calls) == n:
            action()
        return method(*arguments, **options)

    setattr(owner, name, counted)


def kill_after(seconds: float) -> None:
    """End this process at once, whatever it does, when it has used so much time of the processor."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)


def kill_me() -> None:
    """kill -9 of this process."""
    os.kill(os.getpid(), signal.SIGKILL)
