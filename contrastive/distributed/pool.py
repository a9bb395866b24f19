"""Experiments in processes of their own, several at a time: the jobs of a sweep and of a table.

The processes are forks of a server that has imported the program and computed nothing: they start at once, where
importing torch takes seconds. One that is killed takes no other with it, as it would in a ProcessPoolExecutor.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, TypeVar

from contrastive.distributed.signals import explain_stop, interrupts_blocked, unblock_interrupts

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

Task = TypeVar("Task", bound=Callable[[], Any])
HAS_SERVER = "forkserver" in multiprocessing.get_all_start_methods()  # not on Windows
SERVER: "ForkServerContext | SpawnContext" = (
    multiprocessing.get_context("forkserver") if HAS_SERVER else multiprocessing.get_context("spawn")
)
NAME = "job of a pool"


class Died(Exception):
    """A process ended without a result; the text says how."""


def is_in_pool() -> bool:
    """Whether this process is one of several that share a terminal."""
    return multiprocessing.current_process().name == NAME


def run_in_processes(
    tasks: Iterable[Task], *, n_parallel: int, gpus: Sequence[str] = (), imports: Sequence[str] = ()
) -> Iterator[tuple[Task, Any]]:
    """Run every task in a process of its own; yield each, as soon as it is done, with what it returned, or `Died`.

    Ctrl-C ends all processes, each after saving its run; so does the end of this one, also by kill -9.

    Args:
        tasks: picklable, as their results are; each is only asked for when its process starts.
        n_parallel: processes at a time; several of them have one thread each, unless OMP_NUM_THREADS says otherwise.
        gpus: names for CUDA_VISIBLE_DEVICES. A process sees one of them, and shares it where there are more processes
            than GPUs; without names all see what this process does.
        imports: modules of the tasks that are slow to import, for the server to import once.
    """
    if HAS_SERVER:
        SERVER.set_forkserver_preload(["contrastive.experiment.run", *imports])
    waiting, running = iter(tasks), dict[Connection, tuple[Task, BaseProcess, str | None]]()
    slots = deque(gpus[i % len(gpus)] if gpus else None for i in range(n_parallel))  # those that are free
    try:
        while True:
            for task in islice(waiting, len(slots)):
                gpu = slots.popleft()
                with _one_thread_each() if n_parallel > 1 else nullcontext():
                    connection, process = _start(task, gpu)
                running[connection] = (task, process, gpu)
            if not running:
                return
            ready = wait(list(running))
            for connection in [one for one in running if one in ready]:
                task, process, gpu = running[connection]
                result = _result(connection, process)
                del running[connection]
                slots.append(gpu)
                yield task, result
    finally:
        for _, process, _ in running.values():
            process.terminate()  # nothing new to one that has heard the terminal's Ctrl-C
        for _, process, _ in running.values():
            process.join()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """For the server that starts here and its processes, unless OMP_NUM_THREADS says otherwise; what else this process
    starts later has all."""
    if "OMP_NUM_THREADS" in os.environ:
        yield
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        del os.environ["OMP_NUM_THREADS"]


def _start(task: Callable[[], Any], gpu: str | None) -> tuple[Connection, BaseProcess]:
    ours, theirs = SERVER.Pipe(duplex=False)
    process = SERVER.Process(target=_run, args=(task, theirs, gpu), name=NAME)
    # Ctrl-C waits: it would end the server and stop a process half started; both begin with it blocked
    with interrupts_blocked():
        process.start()
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


def _run(task: Callable[[], Any], connection: Connection, gpu: str | None) -> None:
    """What a process of the pool does."""
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu  # CUDA reads it when it starts, which nothing has made it do
    threading.Thread(target=_end_with_parent, daemon=True).start()
    unblock_interrupts()
    try:
        connection.send(task())
    except KeyboardInterrupt as stop:  # its run is saved
        sys.exit(explain_stop(stop)[1])


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
