"""Comparisons as processes of their own, to be looked at, and killed, while they run."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers import ANYWHERE


@contextmanager
def comparing(folder: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """A comparison in a folder, which prints to said.txt; killed with all its processes where it has not ended."""
    command = [sys.executable, "-m", "contrastive", "compare", *words]
    with (folder / "said.txt").open("w") as said:
        process = subprocess.Popen(
            command, cwd=folder, env=ANYWHERE, start_new_session=True, stdout=said, stderr=subprocess.STDOUT, text=True
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until(is_so: Callable[[], object], process: "subprocess.Popen[str]", folder: Path) -> None:
    """Wait until it is so; a busy machine takes minutes for a few runs."""
    end = time.monotonic() + 900
    while not is_so():
        assert process.poll() is None, (folder / "said.txt").read_text()
        assert time.monotonic() < end, (folder / "said.txt").read_text()
        time.sleep(0.05)


def kill_at(pattern: str, folder: Path, *words: str) -> None:
    """Begin a comparison in a folder, and kill it when there is such a file."""
    with comparing(folder, *words, "--jobs", "1") as process:
        until(lambda: any(folder.glob(pattern)), process, folder)  # no rglob: it trips over folders that are removed
