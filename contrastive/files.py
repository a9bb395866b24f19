"""Atomic file writes, hashes of files, and locks between processes."""

import functools
import hashlib
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import yaml
from filelock import lock_descriptor

from contrastive.errors import ConfigError

YAML_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where PyYAML comes with libyaml


@contextmanager
def atomic(path: Path, *, keep: Path | None = None, alone: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside `path` to write to; on leaving, make it durable and rename it over `path`.

    After an exception, or when the process is killed, `path` is as it was before.

    Args:
        alone: no other process writes this path now, since a lock is held: what a killed one left is written over.
        keep: where the replaced file goes. A kill between both renames leaves it there, and no `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part" if alone else f".{path.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)  # a link of that name would be written where it leads
    try:
        yield part
        with part.open("r+b") as file:  # Windows makes nothing durable that was opened to be read
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


@contextmanager
def claimed(path: Path, *, wait: bool) -> Iterator[TextIO | None]:
    """Hold the lock of a file, made if missing; yields the file, or None if another process holds it.

    The system releases the lock when its process ends, however it ends: a file that is left over locks nothing. On
    Windows nobody else may read the first byte of a locked file.

    Args:
        wait: until no other process holds it.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)  # which Windows does not know
    with os.fdopen(os.open(path, flags, 0o666), "r+") as file:
        yield file if lock_descriptor(file.fileno(), blocking=wait) else None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path`, created if missing; other processes wait at the same call."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with claimed(path, wait=True):
        yield


@functools.cache
def _umask() -> int:
    """The permissions that this process withholds from new files; reading them means setting them twice, which two
    threads must not do at once."""
    umask = os.umask(0)
    os.umask(umask)
    return umask


def read_bytes(path: Path) -> bytes:
    """The bytes of a file; raises ConfigError if the system does not give them."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): try the same command once it can") from error


def file_hash(path: Path) -> str:
    """sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_of(raw: bytes) -> int:
    """Length and crc32: equal for images of the same bytes, and by chance for one pair in billions."""
    return len(raw) << 32 | zlib.crc32(raw)
