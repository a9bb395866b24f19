"""Choose the device of a run, and whether its images live there."""

import os
import shutil

import torch

from contrastive.errors import ConfigError
from contrastive.types import Data


def choose_device(name: str) -> torch.device:
    """Resolve `auto` to the GPU if the machine has one; several processes use one GPU each.

    Raises:
        ConfigError: no such device.
    """
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
