"""Programs in processes that start at once: forks of a server which has imported everything and computed nothing."""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from multiprocessing import forkserver
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVER = multiprocessing.get_context("forkserver")
Fault = Callable[[], None]


def start_server() -> None:
    """Start the server, unless it runs."""
    SERVER.set_forkserver_preload(["tests.preload"])
    forkserver.ensure_running()


class Program:
    """`train.py WORDS` as a process of its own.

    Args:
        cwd: the folder that it runs in; its output goes to a file there. fault: called in the process before it starts.
        threads: OMP_NUM_THREADS.
    """

    def __init__(self, *words: str, cwd: Path, fault: Fault | None = None, threads: int = 1) -> None:
        self.log = cwd / "said.txt"
        argv, env = [str(ROOT / "train.py"), *words], {**os.environ, "OMP_NUM_THREADS": str(threads)}
        start_server()
        self.process = SERVER.Process(target=_main, args=(argv, cwd, env, self.log, self.log, fault))
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


def run(argv: list[str], *, cwd: Path, env: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """What `python ARGV` does, a script or `-m MODULE` with its words, like subprocess.run with captured text."""
    start_server()
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        process = SERVER.Process(target=_main, args=(argv, cwd, dict(env), out, err, None))
        process.start()
        process.join(300)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(argv, 300, out.read_text(), err.read_text())
        return subprocess.CompletedProcess(argv, process.exitcode, out.read_text(), err.read_text())


def _main(argv: list[str], cwd: Path, env: dict[str, str], out: Path, err: Path, fault: Fault | None) -> None:
    import torch

    os.chdir(cwd)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for stream, path in ((1, out), (2, err)):
        os.dup2(1 if path == out and stream == 2 else os.open(path, flags), stream)
    os.environ.clear()
    os.environ.update(env)
    paths = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *paths])  # for the processes of devices=2
    torch.set_num_threads(int(env.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # which a server that a table started holds back
    if fault is not None:
        fault()
    is_module = argv[0] == "-m"
    first = str(cwd) if is_module else str(Path(argv[0]).parent)
    sys.path[:0] = [first, *paths]
    sys.argv = argv[1:] if is_module else argv
    sys.orig_argv = [sys.executable, *argv]
    try:
        if is_module:
            runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(argv[0], run_name="__main__")
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
