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

from torch.multiprocessing.spawn import ProcessExitedException, start_processes
from tqdm import tqdm

from contrastive.distributed.process import shutdown
from contrastive.errors import ConfigError


def launch(n: int, task: Callable[..., Any], *arguments: Any) -> None:
    """Run task(*arguments) in n processes of this machine.

    Args:
        n: number of processes.
        task: importable by name; it must call `process.init`.

    Raises:
        ConfigError: if the task raises it in any process.
        ProcessRaisedException: any other failure, with its traceback.
    """
    logging.getLogger("torch.multiprocessing.spawn").setLevel(logging.ERROR)  # it warns of every terminated worker
    with tempfile.NamedTemporaryFile("r") as error_file:
        worker_arguments = (n, _free_port(), error_file.name, task, arguments)
        try:
            start_processes(_worker, worker_arguments, nprocs=n, daemon=True, start_method="spawn")
        except ProcessExitedException:
            if message := error_file.read():
                raise ConfigError(message) from None
            raise


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _worker(
    rank: int, n: int, port: int, error_path: str, task: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    tqdm.set_lock(threading.RLock())  # the default lock is a semaphore, which a killed process leaks
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # the parent reports the interruption
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(n),
        LOCAL_WORLD_SIZE=str(n),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    try:
        task(*arguments)
    except ConfigError as error:
        Path(error_path).write_text(str(error))
        os._exit(2)  # one failing rank stops all
    shutdown()
