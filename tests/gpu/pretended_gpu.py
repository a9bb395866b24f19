"""A GPU to count on, without one: tensors that say `cuda:0` and compute on the CPU, through a step or a whole run.

Kernels and waits of the host for the device are counted. Streams, cuDNN, memory and torch.compile are not pretended.
"""

import sys
import threading
from collections import Counter as Counts
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Generator, Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _foreach_utils, checkpoint
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from contrastive.training import loader

CPU, CUDA = torch.device("cpu"), torch.device("cuda:0")
# Kernels of an operation, where it is not one. BatchNorm: statistics, running statistics, normalization; backward its
# sums and the gradient. A convolution's backward: with respect to images and to weights.
KERNELS = {
    **dict.fromkeys(("empty", "empty_like", "empty_strided", "new_empty", "_unsafe_view", "_reshape_alias"), 0),
    **dict.fromkeys(("native_batch_norm", "cudnn_batch_norm"), 3),
    **dict.fromkeys(("native_batch_norm_backward", "cudnn_batch_norm_backward", "convolution_backward"), 2),
}
# By name, of functions of tensors that are on the device. The linear algebra looks at an error code.
WAITING = {
    "item", "tolist", "__bool__", "__int__", "__float__", "__index__", "__contains__", "__repr__", "__format__",
    "nonzero", "argwhere", "unique", "unique_consecutive", "masked_select", "equal", "allclose", "bincount",
    "cholesky", "linalg_cholesky", "linalg_inv", "linalg_solve", "linalg_svd", "linalg_svdvals", "linalg_eigh",
}  # fmt: skip
INDEXED = {"__getitem__", "__setitem__", "index_put_", "index_put"}


class OnGPU(Tensor):
    """A tensor of the pretended device; a plain Tensor of a CPU in C++."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # the mode handles all
    device, is_cuda, is_cpu = CUDA, True, False


def on_gpu(x: Any) -> bool:
    return isinstance(x, OnGPU)


def put(x: Tensor) -> Tensor:
    """This very tensor on the device."""
    if not on_gpu(x):
        is_parameter = isinstance(x, nn.Parameter)
        x.__class__ = OnGPU
        if is_parameter:
            x._is_param = True  # type: ignore[attr-defined]
    return x


def kernels(func: Any) -> int:
    """How many kernels an operation launches; a few libraries launch more than this knows of."""
    return 0 if func.namespace != "aten" or func.is_view else KERNELS.get(func.overloadpacket.__name__, 1)


class Launches(TorchDispatchMode):
    """Counts kernels while `active`: among them those inside of torch's own functions and of the backward pass."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.active, self.count = False, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += kernels(func) if self.active else 0
        return func(*args, **(kwargs or {}))


class Stream:
    """Work is done in the order of the host, whatever the stream."""

    def __init__(self, device: Any = None) -> None:
        pass

    def record_event(self) -> None:
        pass

    def wait_event(self, event: None) -> None:
        pass


class PretendedGPU(TorchFunctionMode):
    """Within `pretended_gpu()`, what runs on the device.

    Attributes:
        waits: {"file:line function": times} of the host for the device, of the innermost line outside of torch.
        launches: kernels on the device; what the CPU does in several operations counts as several.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counts[str] = Counts()
        self.launches = Launches()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func.__name__, dict(kwargs or {})
        if name in ("device", "_parse_to"):  # which only read what was given
            return func(*args, **kwargs)
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        here = any(map(on_gpu, given))
        if name == "__deepcopy__" and here:
            return self._deepcopied(*args)
        target = asked_device(name, args, kwargs)
        device = target or (CUDA if here else CPU)
        if self._waits(name, args, kwargs, given, target):
            self.wait(name)
        return self._run(func, args, kwargs, given, device)

    def _run(self, func: Any, args: Any, kwargs: Any, given: list[Tensor], device: torch.device) -> Any:
        """Compute it on the CPU, and put what comes out on the device."""
        name, pinned = func.__name__, kwargs.pop("pin_memory", False) or func.__name__ == "pin_memory"
        args, kwargs = tree_map_only(torch.device, lambda _: CPU, (args, kwargs))
        if "device" in kwargs:
            kwargs["device"] = CPU
        if name in ("to", "cuda", "cpu"):  # to another device: a copy, as the tensor may not change its own
            moves = on_gpu(given[0]) != (device == CUDA)
            if name == "to":
                args = tuple("cpu" if isinstance(x, str) else x for x in args)
                out = func(*args, **{**kwargs, "copy": moves or kwargs.get("copy", False)})
            else:
                out = given[0].clone() if moves else given[0]
        elif name == "pin_memory":
            out = given[0].clone()
        else:
            before, self.launches.active = self.launches.active, device == CUDA and name != "__get__"
            try:
                out = func(*args, **kwargs)
            finally:
                self.launches.active = before
        if name == "__set__" and len(given) == 2 and on_gpu(given[1]):  # x.data = y
            put(given[0])
        for x in tree_leaves(out):
            if isinstance(x, Tensor) and not any(x is y for y in given):
                if device == CUDA:
                    put(x)
                elif pinned:
                    x.is_pretended_pinned = True  # type: ignore[attr-defined]
        return out

    def _waits(self, name: str, args: Any, kwargs: Any, given: list[Tensor], target: Any) -> bool:
        """Whether a call stops the host until the device is done."""
        here = any(map(on_gpu, given))
        if name in ("to", "cpu", "cuda") and given:
            to_device = (target or given[0].device) == CUDA
            return on_gpu(given[0]) != to_device and not (to_device and is_free(given[0], kwargs))
        if name == "copy_":
            into, source = args[:2]
            free = len(args) > 2 or kwargs.get("non_blocking", False)
            pinned = hasattr(source if on_gpu(into) else into, "is_pretended_pinned")
            return on_gpu(into) != on_gpu(source) and not (free and pinned)
        if name in ("tensor", "as_tensor"):
            return target == CUDA
        if name in INDEXED and here:
            index = [x for x in tree_leaves(args[1]) if isinstance(x, Tensor)]
            # a mask needs its number of rows, a single whole number its value, and rows of the host are copied
            return any((x.dtype == torch.bool) != (x.ndim == 0) if on_gpu(x) else x.ndim > 0 for x in index)
        return here and name in WAITING

    def wait(self, name: str) -> None:
        """Note one, at the innermost line that is not torch's or this file's."""
        frame = sys._getframe(1)
        while frame.f_back and ("torch/" in frame.f_code.co_filename or frame.f_code.co_filename == __file__):
            frame = frame.f_back
        place = frame.f_code.co_filename.rpartition("contrastive/")[2]
        self.waits[f"{place}:{frame.f_lineno} {name}"] += 1

    def _deepcopied(self, x: Tensor, memo: dict[int, Any]) -> Tensor:
        if id(x) not in memo:
            copy = put(x.detach().clone()).requires_grad_(x.requires_grad)
            if isinstance(x, nn.Parameter):
                copy._is_param = True  # type: ignore[attr-defined]
            memo[id(x)] = copy
        found: Tensor = memo[id(x)]
        return found


def is_free(x: Tensor, kwargs: Any) -> bool:
    return hasattr(x, "is_pretended_pinned") and kwargs.get("non_blocking", False)


def asked_device(name: str, args: Any, kwargs: Any) -> torch.device | None:
    """The device that a call names, if any."""
    asked = kwargs.get("device")
    if name in ("cuda", "cpu"):
        return CUDA if name == "cuda" else CPU
    if asked is None and name == "to":
        named = [x for x in args[1:] if isinstance(x, str | torch.device | Tensor)]
        asked = next(iter(named), None)
        asked = asked.device if isinstance(asked, Tensor) else asked
    if asked is None:
        return None
    return CUDA if torch.device(asked).type == "cuda" else CPU


class Autocast(torch.autocast):
    def __init__(self, device_type: str, **options: Any) -> None:
        super().__init__("cpu", **options)


class FakeGenerator(Generator):
    """A generator of the device: without a driver there is no real one."""

    device = CUDA

    def manual_seed(self, seed: int) -> Generator:
        super().manual_seed(seed)
        return self  # and not a plain generator


class AnyGenerator(Generator):
    def __new__(cls, device: Any = "cpu") -> Generator:
        return FakeGenerator() if torch.device(device).type == "cuda" else Generator()


@contextmanager
def pretended_gpu() -> Iterator[PretendedGPU]:
    """Within, this machine has one GPU, in every thread that starts there."""
    gpu, run = PretendedGPU(), threading.Thread.run
    gigabytes = 80 * 2**30

    def with_gpu(thread: threading.Thread) -> None:
        with gpu:
            run(thread)

    def backward(loss: Tensor, gradient: Tensor | None = None, **options: Any) -> None:
        gpu.launches.active = on_gpu(loss)
        torch.autograd.backward(loss, gradient, **options)
        gpu.launches.active = False

    def grouped(tensors: Any, with_indices: bool = False) -> Any:  # C++ sees through the pretence
        found = _foreach_utils._group_tensors_by_device_and_dtype(tensors, with_indices)
        return {(CUDA if on_gpu(lists[0][0]) else CPU, dtype): (lists, i) for (_, dtype), (lists, i) in found.items()}

    with (
        mock.patch.multiple(
            torch.cuda,
            is_available=lambda: True, device_count=lambda: 1, current_device=lambda: 0, set_device=lambda _: None,
            get_device_capability=lambda _=None: (9, 0), get_device_name=lambda _=None: "pretended GPU",
            get_device_properties=lambda _=None: SimpleNamespace(total_memory=gigabytes, name="pretended GPU"),
            mem_get_info=lambda _=None: (gigabytes, gigabytes), synchronize=lambda _=None: gpu.wait("synchronize"),
            get_rng_state=lambda _=None: torch.get_rng_state(), device=nullcontext,
            set_rng_state=lambda state, _=None: torch.set_rng_state(state),
            is_current_stream_capturing=lambda: False,
            Stream=Stream, stream=lambda _: nullcontext(), current_stream=Stream,
        ),
        mock.patch.object(loader, "copy_stream", cache(loader.copy_stream.__wrapped__)),
        mock.patch.multiple(torch.accelerator, current_stream=lambda: SimpleNamespace(is_capturing=lambda: False)),
        mock.patch.multiple(torch, Generator=AnyGenerator, autocast=Autocast),
        mock.patch.object(_foreach_utils, "_foreach_supported_types", [Tensor, nn.Parameter, OnGPU]),
        mock.patch.object(torch.optim.Optimizer, "_group_tensors_by_device_and_dtype", staticmethod(grouped)),
        mock.patch.dict(  # C++ forgets which tensors are pretended, and a checkpoint compares their devices
            checkpoint._allowed_determinism_checks_to_fns, default=lambda x: {"shape": x.shape, "dtype": x.dtype}
        ),
        mock.patch.object(Tensor, "backward", backward),
        mock.patch.object(Tensor, "record_stream"),
        mock.patch.object(threading.Thread, "run", with_gpu),
        gpu,
        gpu.launches,
    ):  # fmt: skip
        try:
            yield gpu
        finally:
            torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = False  # which a run sets
