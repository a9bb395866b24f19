"""Atomic file writes, hashes of files, and locks between processes."""

import errno
import fcntl
import functools
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import yaml

from contrastive.errors import ConfigError

YAML_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where PyYAML comes with libyaml


@contextmanager
def atomic(path: Path, *, keep: Path | None = None) -> Iterator[Path]:
    """Yield a temporary path beside `path` to write to; on leaving, make it durable and rename it over `path`.

    After an exception, or when the process is killed, `path` is as it was before.

    Args:
        keep: where the replaced file goes. A kill between both renames leaves it there, and no `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)  # a link of that name would be written where it leads
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.chmod(part, 0o666 & ~_umask())  # some libraries create files that only their owner can read
        if keep is not None and path.exists():
            path.replace(keep)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Replace the content of `path` atomically."""
    with atomic(path) as part:
        part.write_text(text)


def check_no_link(path: Path) -> None:
    """Raise ConfigError for a symbolic link, through which a directory of a stranger could lead anywhere."""
    if path.is_symlink():
        raise ConfigError(f"{path} is a link, and writing would change its target: try rm {path}")


def open_lock(path: Path) -> TextIO:
    """Open the file of a lock, made if missing, as it is: what it says is replaced by whoever holds the lock.

    Raises:
        ConfigError: it is a symbolic link.
    """
    try:
        return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+")
    except OSError as error:
        if error.errno == errno.ELOOP:
            check_no_link(path)
        raise


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path`, created if missing; other processes wait at the same call."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_lock(path) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@functools.cache
def _umask() -> int:
    """The permissions that this process withholds from new files; reading them means setting them twice, which two
    threads must not do at once."""
    umask = os.umask(0)
    os.umask(umask)
    return umask


def file_hash(path: Path) -> str:
    """sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
