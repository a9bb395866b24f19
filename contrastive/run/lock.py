"""One process at a time in a run directory."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contrastive.errors import ConfigError


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Keep every other process out of the directory, and name this one to whoever is refused.

    The kernel releases the lock when its process ends, however it ends: a file that is left over locks nothing.

    Raises:
        ConfigError: another process holds the lock.
    """
    path.mkdir(parents=True, exist_ok=True)
    with (path / ".lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise ConfigError(
                f"another process ({file.read() or 'just starting'}) is running in {path}: "
                "wait for it, or try hydra.run.dir=PATH"
            ) from None
        file.truncate(0)
        file.write(f"pid {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield
