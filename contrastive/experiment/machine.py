"""What a run asks of the machine: a device, room for its images and steps, threads, and to keep what tensors free."""

import ctypes
import math
import os
import platform
import shutil
import sysconfig
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import psutil
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode  # as torch's manual imports it

from contrastive.config.compose import LARGE
from contrastive.config.settings import Settings
from contrastive.distributed.hardware import n_busy, n_cores
from contrastive.distributed.process import broadcast_from_main, shard
from contrastive.errors import ConfigError
from contrastive.run.run import read_run
from contrastive.text import counted
from contrastive.training.precision import autocast, set_tf32
from contrastive.types import Data

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of glibc's malloc.h
MOST = 4096  # times the bytes of its views is more than a network keeps: of so few nothing is counted
ON_CPU = 1.4  # times what is kept a step holds at most, and more: 1.5 to 1.9 were measured (torch 2.15)
GIB = 2**30
# What torch starts with, from OMP_NUM_THREADS; asked for before the first run of a sweep changes it.
own_threads = cache(torch.get_num_threads)


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
    if name == "auto":
        has_mps = shard().world_size == 1 and torch.backends.mps.is_available()
        name = "cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu"
    if name == "cuda" and torch.cuda.is_available():
        name = f"cuda:{torch.cuda.current_device()}"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    n = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if device.type not in n:
        raise ConfigError(f"device must be auto, cpu, cuda, cuda:N or mps, got {name}: try device=auto")
    if (device.index or 0) >= n[device.type]:
        raise ConfigError(f"this machine has no {device} that torch can use: try device=auto")
    return device


def start_device(name: str, *, deterministic: bool = False) -> torch.device:
    """The device of a name, made torch's own; sets how cuDNN and torch choose between algorithms, and float32.

    Args:
        deterministic: only algorithms that give the same bits each time. torch raises RuntimeError where it has none.
    """
    if deterministic and not torch.cuda.is_initialized():  # which reads it; later torch says what to do
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
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
    if device.type != "cuda":
        return None if any(map(shutil.which, ("g++", "clang++"))) else "a C++ compiler: try apt-get install g++"
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
    return data.nbytes <= free_memory(device) / 2


def free_memory(device: torch.device) -> int:
    """Bytes that each process can have, as the main one sees it: of a GPU, or else its part of the machine's, beside
    other processes here.

    What it has freed it holds: torch on a GPU, and on a CPU `keep_freed_memory`. There all that it holds counts, files
    aside, as the system does not tell what of it is free; in a run that begins it is little.
    """

    def free() -> int:
        if device.type == "cuda":
            held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
            return int(torch.cuda.mem_get_info(device)[0] + held)
        own = psutil.Process().memory_info()
        part = psutil.virtual_memory().available // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        return int(part + own.rss - getattr(own, "shared", 0))

    return broadcast_from_main(free)


def check_room(
    settings: Settings, network: nn.Module, image: Sequence[int], *, second: int, precision: str, device: torch.device
) -> None:
    """Refuse a step that has no room in the free memory, with what to type; all processes do so together.

    Args:
        image: (K, h, w) of a view.
        second: images of a second batch, of all processes together.

    Raises:
        ConfigError: the step needs more than is free.
    """
    free = free_memory(device)
    n_views = (settings.batch_size * settings.n_views + second) // shard().world_size
    if settings.epochs == 0 or n_views * math.prod(image) * 4 * MOST <= free:
        return
    step = needed_by_step(settings, network, image, second=second, precision=precision, device=device)
    if step <= free:
        return
    n = fitting_batch(settings.batch_size, step, free)
    knobs = [f"batch_size={n}", f"grad_cache_chunk={n}"] if n > 1 else ["a smaller dataset.size or n_views"]
    if n > 1 and settings.encoder.get("stem") == "small" and image[-1] >= LARGE:
        knobs.insert(0, "encoder.stem=large")
    where = "the GPU" if device.type == "cuda" else "this machine"
    raise ConfigError(
        f"a step of {settings.batch_size} images in {counted(settings.n_views, 'view')} needs {step / GIB:,.1f} GiB, "
        f"and {where} has {free / GIB:,.1f} GiB free: try {' or '.join(knobs)}"
    )


def fitting_batch(batch_size: int, step: float, free: float) -> int:
    """The largest power of two of images, 0 if there is none, whose step is counted at half of what is free."""
    return 1 << int(math.log2(n)) if (n := batch_size * free / 2 / step) >= 1 else 0


def needed_by_step(
    settings: Settings,
    network: nn.Module,
    image: Sequence[int],
    *,
    second: int = 0,
    precision: str,
    device: torch.device,
) -> float:
    """Bytes that a step of one process takes at least: its views, and what the network keeps of all or of a chunk."""
    n, second = settings.batch_size // shard().world_size, second // shard().world_size
    chunks = math.ceil(n / (settings.grad_cache_chunk or n))
    passed = math.ceil(n / chunks) * settings.n_views + (second if chunks == 1 else 0)
    kept = kept_by_network(network, (passed, *image), device=device, context=autocast(precision, device))
    return (n * settings.n_views + second) * math.prod(image) * 4 + kept * (ON_CPU if device.type == "cpu" else 1)


def kept_by_network(
    network: nn.Module,
    shape: Sequence[int],
    *,
    device: torch.device,
    context: Callable[[], AbstractContextManager[object]],
) -> int:
    """Bytes that a pass of images (N, K, h, w) keeps for the backward pass, beside the weights.

    Returns:
        0 of a network that cannot be run on tensors without values, such as one that reads some.
    """
    place, kept = "cuda" if device.type == "cuda" else "cpu", dict[int, torch.UntypedStorage]()

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()  # which the views of a tensor share
        kept[id(storage)] = storage
        return tensor

    try:
        with torch.random.fork_rng(devices=[]), FakeTensorMode(allow_non_fake_inputs=True), context():
            state = {
                name: torch.empty_like(own, device=place).requires_grad_(own.requires_grad)
                for name, own in chain(network.named_parameters(), network.named_buffers())
            }
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                torch.func.functional_call(network, state, (torch.empty(*shape, device=place),))
    except Exception:  # of code of anybody's
        return 0
    weights = {id(own.untyped_storage()) for own in state.values()}
    return sum(storage.nbytes() for key, storage in kept.items() if key not in weights)


def set_threads(setting: int | str, path: Path, *, rerun: bool) -> str:
    """Set the number of torch's threads, of each process, for the run in `path`; returns it in words.

    A typed number wins. Else an interrupted run goes on with the number it had, because another one rounds differently.
    Else it is torch's own, which OMP_NUM_THREADS decides.

    Args:
        setting: `auto` or a number.
        rerun: the run starts over, whatever it had.
    """
    state, own = read_run(path), own_threads()
    recorded = state.environment["threads"] if state.kind == "resumable" and not rerun else None
    n = broadcast_from_main(lambda: int(setting) if setting != "auto" else recorded or own)
    torch.set_num_threads(n)
    differs = recorded is not None and recorded != n
    return counted(n, "thread") + f" (it last ran with {recorded}: metrics may differ in their last digits)" * differs


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
