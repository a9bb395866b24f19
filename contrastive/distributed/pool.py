"""Experiments in processes of their own, several at a time: the jobs of a sweep and of a table.

The processes are forks of a server that has imported the program and computed nothing: they start at once, where
importing torch takes seconds. One that is killed takes no other with it, as it would in a ProcessPoolExecutor.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

Task = TypeVar("Task", bound=Callable[[], Any])
SERVER = multiprocessing.get_context("forkserver")
NAME = "job of a pool"


class Died(Exception):
    """A process ended without a result; the text says how."""


def is_in_pool() -> bool:
    """Whether this process is one of several that share a terminal."""
    return multiprocessing.current_process().name == NAME


def run_in_processes(tasks: Iterable[Task], *, n_parallel: int) -> Iterator[tuple[Task, Any]]:
    """Run every task in a process of its own; yield each, as soon as it is done, with what it returned, or `Died`.

    Ctrl-C ends all processes, each after saving its run; so does the end of this one, also by kill -9.

    Args:
        tasks: picklable, as their results are; each is only asked for when its process starts.
        n_parallel: processes at a time; several of them have one thread each, unless OMP_NUM_THREADS says otherwise.
    """
    if n_parallel > 1:
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when the server starts
    SERVER.set_forkserver_preload(["contrastive.experiment.run"])
    waiting, running = iter(tasks), dict[Connection, tuple[Task, BaseProcess]]()
    try:
        while True:
            for task in islice(waiting, n_parallel - len(running)):
                connection, process = _start(task)
                running[connection] = (task, process)
            if not running:
                return
            ready = wait(list(running))
            for connection in [one for one in running if one in ready]:
                task, process = running[connection]
                result = _result(connection, process)
                del running[connection]
                yield task, result
    finally:
        for _, process in running.values():
            process.terminate()  # nothing new to one that has heard the terminal's Ctrl-C
        for _, process in running.values():
            process.join()


def _start(task: Callable[[], Any]) -> tuple[Connection, BaseProcess]:
    ours, theirs = SERVER.Pipe(duplex=False)
    process = SERVER.Process(target=_run, args=(task, theirs), name=NAME)
    # Ctrl-C waits: it would end the server and stop a process half started; both begin with it blocked
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    theirs.close()
    return ours, process


def _result(connection: Connection, process: BaseProcess) -> Any:
    try:
        return connection.recv()
    except EOFError:
        process.join()
        return Died(f"its process ended with exit code {process.exitcode}")
    finally:
        process.join()


def _run(task: Callable[[], Any], connection: Connection) -> None:
    """What a process of the pool does."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        connection.send(task())
    except KeyboardInterrupt as stop:  # its run is saved
        sys.exit(128 + getattr(stop, "signum", signal.SIGINT))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
