"""Atomic file writes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Write a file atomically: fill the temporary path given; on success it is made durable and renamed to `path`.

    After an error or a kill the old file, if any, is untouched.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.chmod(part, 0o666 & ~_umask())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Replace a file by a text, atomically."""
    with atomic(path) as part:
        part.write_text(text)


def _umask() -> int:
    """The process's umask: some libraries create files that only their owner can read."""
    umask = os.umask(0)
    os.umask(umask)
    return umask
