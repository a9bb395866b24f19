"""Start the processes of one run on this machine."""

import logging
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch.multiprocessing as mp
from tqdm import tqdm

from contrastive.distributed.process import shutdown
from contrastive.errors import ConfigError


def launch(n: int, task: Callable[..., Any], *arguments: Any) -> None:
    """Run task(*arguments) in n processes of this machine; it must be importable by name, and `init`.

    Raises:
        ConfigError: when the task does. ProcessRaisedException: any other failure, with its traceback.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    logging.getLogger("torch.multiprocessing.spawn").setLevel(logging.ERROR)  # that it ends the others is no news
    with tempfile.NamedTemporaryFile("r") as refusal:
        try:
            mp.start_processes(
                _worker, (n, port, refusal.name, task, arguments), nprocs=n, daemon=True, start_method="spawn"
            )
        except mp.ProcessExitedException:
            if said := refusal.read():
                raise ConfigError(said) from None
            raise


def _worker(rank: int, n: int, port: int, path: str, task: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    tqdm.set_lock(threading.RLock())  # its own lock is a semaphore that a process which is stopped leaves behind
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # the parent says that it was interrupted
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
    except ConfigError as refusal:  # whoever refuses ends all
        Path(path).write_text(str(refusal))
        os._exit(2)
    shutdown()
