"""What a run asks of the machine: a number of threads, and to keep the memory that tensors give back."""

import ctypes
import json
import os
import platform
from functools import lru_cache
from pathlib import Path

import torch

from contrastive.distributed.cores import n_cores
from contrastive.distributed.process import broadcast_from_main
from contrastive.run.files import has_checkpoint, read_result

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of glibc's malloc.h


def keep_freed_memory() -> None:
    """Let glibc keep what tensors give back until the program ends.

    By default it maps every large tensor afresh and unmaps it when it is freed, and the kernel clears its pages one by
    one: a third of a training step on a CPU. Other C libraries have no mallopt.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def set_threads(setting: int | str, path: Path, *, rerun: bool) -> str:
    """Set the number of torch's threads, of each process, for the run in `path`; returns it in words.

    A typed number wins. Else an interrupted run goes on with the number it had, because another one rounds differently.
    Else it is torch's own, which OMP_NUM_THREADS decides.

    Args:
        setting: `auto` or a number. rerun: the run starts over, whatever it had.
    """
    recorded, own = None if rerun else recorded_threads(path), own_threads()
    n, recorded = broadcast_from_main(lambda: (int(setting) if setting != "auto" else recorded or own, recorded))
    torch.set_num_threads(n)
    words = f"{n} thread{'s' if n > 1 else ''}"
    if recorded is None or (recorded == n and setting != "auto"):
        return words
    if recorded == n:
        return f"{words} (as before the interruption)"
    return f"{words} (it last ran with {recorded}: figures may differ in their last digits)"


def recorded_threads(path: Path) -> int | None:
    """The number of threads of the interrupted run in `path`; None if there is nothing to resume."""
    if read_result(path) is not None or not has_checkpoint(path):
        return None
    try:
        return int(json.loads((path / "environment.json").read_text())["threads"])
    except (OSError, ValueError, KeyError, TypeError):  # damaged: opening the run says so
        return None


@lru_cache
def own_threads() -> int:
    """The number that torch starts with, from OMP_NUM_THREADS; asked for before the first run of a sweep changes it."""
    return torch.get_num_threads()


def busy_warning() -> str:
    """A line about other busy processes, empty where there are none or one thread does not mind.

    Threads wait for each other in every operation: two of them beside one busy neighbor on two cores were 5 to 8 times
    slower than one.
    """
    busy, cores, threads = os.getloadavg()[0], n_cores(), torch.get_num_threads()
    if threads == 1 or busy + threads <= cores + 0.5:
        return ""
    return (
        f"warning: {busy:.1f} of {cores} cores were busy in the last minute, and {threads} threads that wait for a "
        "core are many times slower than one: try threads=1 (or OMP_NUM_THREADS=1)"
    )
