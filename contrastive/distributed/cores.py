"""What runs may use of this machine: its cores and its GPUs. Imports no torch, unless there is a driver of GPUs."""

import os
from collections.abc import Iterable
from pathlib import Path

import psutil

from contrastive.errors import ConfigError

DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # device files: NVIDIA's, AMD's, Windows' in WSL
ELSEWHERE = ("device=cpu", "device=cuda:", "devices=")  # settings of runs that use no GPU, a certain one, several


def n_cores() -> int:
    """How many cores this process may use."""
    return len(_cores())


def n_busy() -> float:
    """How many of these cores are at work at this moment, as seen for a fifth of a second: the average over the last
    minute would tell of what has ended since."""
    percent = psutil.cpu_percent(0.2, percpu=True)
    return float(sum(percent[i] for i in _cores() if i < len(percent))) / 100


def _cores() -> list[int]:
    affinity = getattr(psutil.Process(), "cpu_affinity", None)  # macOS has none
    return list(range(psutil.cpu_count() or 1)) if affinity is None else affinity()


def check_processes(n: int, device: str) -> None:
    """Raise ConfigError for more processes of one run than this machine has GPUs or, without any, cores.

    Args:
        device: as typed, such as auto or cpu.
    """
    if n == 1:
        return
    n_gpus = 0 if device == "cpu" else len(gpus_for(()))
    most, kind = (n_gpus, "GPU") if n_gpus else (n_cores(), "core")
    if n > most:
        there = f"{'is' if most == 1 else 'are'} {most}"
        raise ConfigError(f"devices={n} needs a {kind} for each process and there {there}: try devices={most}")


def gpus_for(overrides: Iterable[str]) -> list[str]:
    """The GPUs to spread runs over, as CUDA_VISIBLE_DEVICES names them: numbers, or the UUIDs that it lists.

    Args:
        overrides: settings of all runs; none is spread that does without a GPU, names one, or uses several.
    """
    if any(word.startswith(ELSEWHERE) for word in overrides) or not any(Path(file).exists() for file in DRIVERS):
        return []
    import torch  # late: it takes seconds

    n = torch.cuda.device_count()
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    return [name.strip() for name in listed.split(",")][:n] if listed is not None else [str(i) for i in range(n)]
