"""What a run asks of the machine: a device, room for its images, threads, and to keep the memory that tensors free."""

import ctypes
import os
import platform
import shutil
import sysconfig
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import psutil
import torch

from contrastive.distributed.cores import n_busy, n_cores
from contrastive.distributed.process import broadcast_from_main, shard
from contrastive.errors import ConfigError
from contrastive.run.files import run_state
from contrastive.text import counted
from contrastive.training.precision import set_tf32
from contrastive.types import Data

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of glibc's malloc.h
VOLTA = (7, 0)  # the compute capability that Triton starts from


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
    """The device of a name, `auto` the GPU if there is one; several processes use one GPU each, or else the CPU.

    Apple's GPU is `mps`: one process, float32, neither compiled nor captured.
    """
    alone = shard().world_size == 1
    if name == "auto":
        has_mps = alone and torch.backends.mps.is_available()
        name = "cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu"
    if name == "cuda" and torch.cuda.is_available():
        name = f"cuda:{torch.cuda.current_device()}"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda", "mps"):
        raise ConfigError(f"device must be auto, cpu, cuda, cuda:N or mps, got {name}: try device=auto")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("this machine has no GPU of Apple that torch can use: try device=auto")
    if device.type == "mps" and not alone:
        raise ConfigError("several processes cannot share Apple's GPU: try device=cpu, or devices=1")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"this machine has no {device}: try device=auto")
    return device


def start_device(name: str, *, deterministic: bool = False) -> torch.device:
    """The device of a name, made torch's own; sets how cuDNN and torch choose between algorithms, and float32.

    Args:
        deterministic: only algorithms that give the same bits each time. torch raises RuntimeError where it has none.
    """
    if deterministic:
        if torch.cuda.is_initialized() and "CUBLAS_WORKSPACE_CONFIG" not in os.environ:
            raise ConfigError(
                "deterministic=true comes too late, an earlier run of this process has used the GPU without it: "
                "try CUBLAS_WORKSPACE_CONFIG=:4096:8 before the command"
            )
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    if deterministic != torch.are_deterministic_algorithms_enabled():  # to set it imports the compiler: seconds
        torch.use_deterministic_algorithms(deterministic)
    device = choose_device(name)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.backends.cudnn.deterministic = deterministic
        torch.backends.cudnn.benchmark = not deterministic  # every step has the same shapes
    set_tf32("fp32")  # torch's default lets convolutions round; a run that asks for it sets it
    return device


def choose_compile(setting: bool | str, device: torch.device) -> bool | str:
    """What torch.compile is to compile: nothing (False), the "augmentation", or everything (True).

    `auto` is the augmentation on a GPU, which is one graph of some 400 small operations, and nothing on a CPU or, with
    a warning, where a compiler is missing.

    Raises:
        ConfigError: compile=true where a compiler is missing.
    """
    if setting is False or (setting == "auto" and device.type != "cuda"):
        return False
    if (missing := missing_for_compile(device)) is None:
        return True if setting is True else "augmentation"
    if setting is True:
        raise ConfigError(f"compile=true needs {missing}, or compile=false")
    print(f"warning: steps could be faster, but torch.compile needs {missing}, or compile=false")
    return False


def missing_for_compile(device: torch.device) -> str | None:
    """What torch.compile needs on this device and does not find, and what to try; None if it has everything."""
    if device.type == "cpu":
        return None if any(map(shutil.which, ("g++", "clang++"))) else "a C++ compiler: try apt-get install g++"
    if device.type == "mps":
        return "a CPU or a GPU of NVIDIA: try another device"
    if torch.cuda.get_device_capability(device) < VOLTA:
        return "a GPU of the Volta generation or later: try another device"
    if find_spec("triton") is None:
        return "Triton: try pip install triton"
    if not os.environ.get("CC") and not any(map(shutil.which, ("gcc", "clang"))):
        return "a C compiler: try apt-get install gcc"
    if not Path(sysconfig.get_path("include", "posix_prefix"), "Python.h").exists():
        return "the headers of Python: try apt-get install python3-dev"
    return None


def pays_to_compile(n_views: int, side: int) -> bool:
    """Whether a training of so many square views, of `side` pixels, is long enough to compile the network for.

    Compiling takes some 40 s and saves 30 % of each step, measured on an H100 (studies/speed) where a ResNet-18
    takes 56,400 views/s of 32 pixels without it: together that is even after 7.5e6 such views. A slower GPU or a larger
    network gains earlier. The length alone decides, so that the same command computes the same bits each time.
    """
    return n_views * side**2 > 40 / 0.30 * 56_400 * 32**2


def is_resident(data: Data, device: torch.device, choice: bool | str) -> bool:
    """Whether to keep the images on the device; "auto": if they fit in half of the free memory."""
    if isinstance(choice, bool):
        return choice
    if not isinstance(data.pretrain.image, torch.Tensor):  # stored: decoding all would take longer than the first step
        return False
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available
    return data.nbytes <= free / 2


def set_threads(setting: int | str, path: Path, *, rerun: bool) -> str:
    """Set the number of torch's threads, of each process, for the run in `path`; returns it in words.

    A typed number wins. Else an interrupted run goes on with the number it had, because another one rounds differently.
    Else it is torch's own, which OMP_NUM_THREADS decides.

    Args:
        setting: `auto` or a number.
        rerun: the run starts over, whatever it had.
    """
    state = run_state(path)
    resumes = not rerun and state.kind == "resumable"
    recorded, own = state.environment["threads"] if resumes else None, own_threads()
    n, recorded = broadcast_from_main(lambda: (int(setting) if setting != "auto" else recorded or own, recorded))
    torch.set_num_threads(n)
    words = f"{counted(n, 'thread')}"
    if recorded is None or (recorded == n and setting != "auto"):
        return words
    if recorded == n:
        return f"{words} (as before the interruption)"
    return f"{words} (it last ran with {recorded}: metrics may differ in their last digits)"


@lru_cache
def own_threads() -> int:
    """The number that torch starts with, from OMP_NUM_THREADS; asked for before the first run of a sweep changes it."""
    return torch.get_num_threads()


def busy_warning() -> str:
    """A line about other busy processes, empty where there are none or one thread does not mind.

    Threads wait for each other in every operation: two of them beside one busy neighbor on two cores were 5 to 8 times
    slower than one.
    """
    cores, threads = n_cores(), torch.get_num_threads()
    if threads == 1 or (busy := n_busy()) + threads <= cores + 0.5:
        return ""
    return (
        f"{busy:.1f} of {cores} cores are busy with other work, and {threads} threads that wait for a "
        "core are many times slower than one: try threads=1 (or OMP_NUM_THREADS=1)"
    )
