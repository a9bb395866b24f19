"""What a run asks of the machine: a device, room for its images, threads, and to keep the memory that tensors free."""

import ctypes
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import torch

from contrastive.config.messages import is_out_of_memory, out_of_memory
from contrastive.config.settings import Settings
from contrastive.distributed.cores import n_cores
from contrastive.distributed.process import broadcast_from_main
from contrastive.errors import ConfigError
from contrastive.run.files import run_state
from contrastive.types import Data

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


def choose_device(name: str) -> torch.device:
    """The device of a name, `auto` the GPU if there is one; several processes use one GPU each."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and torch.cuda.is_available():
        name = f"cuda:{torch.cuda.current_device()}"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device must be auto, cpu, cuda or cuda:N, got {name}: try device=auto")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"this machine has no {device}: try device=auto")
    return device


def check_compiler(device: torch.device) -> None:
    """Raise ConfigError if torch.compile needs a C++ compiler that is not installed."""
    if device.type == "cpu" and not any(map(shutil.which, ("g++", "clang++"))):
        raise ConfigError("compile=true needs a C++ compiler on a CPU: try apt-get install g++, or compile=false")


def is_resident(data: Data, device: torch.device, choice: bool | str) -> bool:
    """Whether to keep the images on the device; "auto": if they fit in half of the free memory."""
    if isinstance(choice, bool):
        return choice
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
    else:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return data.nbytes <= free / 2


def set_threads(setting: int | str, path: Path, *, rerun: bool) -> str:
    """Set the number of torch's threads, of each process, for the run in `path`; returns it in words.

    A typed number wins. Else an interrupted run goes on with the number it had, because another one rounds differently.
    Else it is torch's own, which OMP_NUM_THREADS decides.

    Args:
        setting: `auto` or a number. rerun: the run starts over, whatever it had.
    """
    state = run_state(path)
    resumes = not rerun and state.kind == "resumable"
    recorded, own = state.environment["threads"] if resumes else None, own_threads()
    n, recorded = broadcast_from_main(lambda: (int(setting) if setting != "auto" else recorded or own, recorded))
    torch.set_num_threads(n)
    words = f"{n} thread{'s' if n > 1 else ''}"
    if recorded is None or (recorded == n and setting != "auto"):
        return words
    if recorded == n:
        return f"{words} (as before the interruption)"
    return f"{words} (it last ran with {recorded}: figures may differ in their last digits)"


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
        f"{busy:.1f} of {cores} cores were busy in the last minute, and {threads} threads that wait for a "
        "core are many times slower than one: try threads=1 (or OMP_NUM_THREADS=1)"
    )


@contextmanager
def explained_memory(settings: Settings) -> Iterator[None]:
    """Turn a failed allocation in the body into a ConfigError that says what to try."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        views = (settings.grad_cache_chunk or settings.batch_size) * settings.n_views
        consumers = f"; activations of {views} views at once are usually the most"
        raise ConfigError(out_of_memory(error, consumers)) from error
