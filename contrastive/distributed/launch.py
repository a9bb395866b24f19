"""Start the processes of one run on this machine.

torchrun's `elastic_launch` starts as fast, but prints pages of log and traceback for a ConfigError and for Ctrl-C.
"""

import logging
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.multiprocessing.spawn import ProcessContext, ProcessExitedException, ProcessRaisedException, start_processes
from tqdm import tqdm

from contrastive.distributed.process import shutdown
from contrastive.distributed.signals import Stop, explain_stop, stop_signals
from contrastive.errors import ConfigError

HOST = "127.0.0.1"
Explain = Callable[[Exception], str | None]
GRACE = 20.0  # seconds that the others get to end by themselves once one process has ended; then they are killed


def launch(n: int, task: Callable[..., Any], *arguments: Any, explain: Explain) -> None:
    """Run task(*arguments) in n processes of this machine.

    A signal that would end this process is passed on to all: they save a checkpoint and end.

    Args:
        n: number of processes.
        task: importable by name; it must call `process.init`.
        explain: importable by name; the sentence for an error of the task, None where its traceback says more.

    Raises:
        ConfigError: if the task raises it in any process, or an error that `explain` has a sentence for.
        Stop: this process was told to end.
        ProcessRaisedException: any other failure, with its traceback.
    """
    logging.getLogger("torch.multiprocessing.spawn").setLevel(logging.ERROR)  # it warns of every terminated worker
    with socket.create_server((HOST, 0)) as ours:  # a store that picks the port itself listens on every address
        port = ours.getsockname()[1]
        store = TCPStore(HOST, port, is_master=True, wait_for_workers=False, master_listen_fd=ours.detach())
    with tempfile.NamedTemporaryFile("r") as error_file:
        worker_arguments = (n, store.port, error_file.name, task, arguments, explain)
        context = start_processes(_worker, worker_arguments, nprocs=n, daemon=True, start_method="spawn", join=False)
        with stop_signals(on_stop=lambda: _terminate(context)) as signals, signals.held():
            try:
                while not context.join(grace_period=GRACE):
                    pass
            except (ProcessExitedException, ProcessRaisedException) as error:
                message = error_file.read()
                if signals.pending is None:
                    raise (ConfigError(message) if message else error) from None
            if signals.pending is not None:
                raise Stop(signals.pending)


def _terminate(context: ProcessContext) -> None:
    """Ask every process to save and end."""
    for process in context.processes:
        if process.is_alive():
            process.terminate()


def _worker(
    rank: int,
    n: int,
    port: int,
    error_path: str,
    task: Callable[..., Any],
    arguments: tuple[Any, ...],
    explain: Explain,
) -> None:
    tqdm.set_lock(threading.RLock())  # the default lock is a semaphore, which a killed process leaks
    parent = os.getppid()
    # A terminal sends Ctrl-C to all, and the parent passes it on as SIGTERM; the kernel sends it when the parent dies.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130) if os.getppid() != parent else None)
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(n),
        LOCAL_WORLD_SIZE=str(n),
        MASTER_ADDR=HOST,
        MASTER_PORT=str(port),
        TORCHELASTIC_USE_AGENT_STORE="True",  # the parent serves the store: rank 0 is a client, too
        TORCHELASTIC_RESTART_COUNT="0",
    )
    try:
        task(*arguments)
    except Stop as stop:
        os._exit(explain_stop(stop)[1])
    except Exception as error:
        if (message := explain(error)) is None:
            raise
        Path(error_path).write_text(message)
        os._exit(2)  # one failing rank stops all
    shutdown()
