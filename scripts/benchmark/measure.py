"""Time and memory of one benchmark process, printed as one line of JSON."""

import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pids: Iterable[int] = ()) -> float:
    """User and system time of this process and of the other processes given."""
    total = 0.0
    for pid in (os.getpid(), *pids):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / TICK
    return total


def synchronize() -> None:
    """Wait for the GPU, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def peak_mib(task: Callable[[], object]) -> float:
    """MiB by which the memory of the device (on a CPU: of the process) rises while the task runs."""
    if torch.cuda.is_available():
        task()  # cuBLAS takes its workspace the first time
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        task()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts at what is resident now
    before = _status("VmRSS")
    task()
    return (_status("VmHWM") - before) / 1024


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


class Clock:
    """Wall-clock and processor seconds between `start` and `stop`; the latter include the worker processes `pids`."""

    def __init__(self) -> None:
        self.pids: list[int] = []

    def start(self) -> None:
        synchronize()
        self.wall, self.cpu = time.perf_counter(), cpu_seconds(self.pids)

    def stop(self) -> dict[str, float]:
        synchronize()
        return {"seconds": time.perf_counter() - self.wall, "cpu_seconds": cpu_seconds(self.pids) - self.cpu}


def report(**metrics: float) -> None:
    """Print the line that the parent process reads."""
    print(json.dumps(metrics), flush=True)
