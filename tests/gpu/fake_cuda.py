"""A GPU without a GPU: training steps on `cuda` tensors that hold no data (torch's FakeTensorMode), and their counts.

What waits for the device by its nature (`item`, `nonzero`, shapes that depend on data) raises there, as do mixed
devices. A copy that blocks would pass unseen: `Counter` sees it.
"""

from collections import Counter as Counts
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Generator, Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _foreach_utils
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CUDA = torch.device("cuda:0")
aten = torch.ops.aten
# Kernels of an operation, where it is not one. BatchNorm: statistics, running statistics, normalization; backward its
# sums and the gradient. A convolution's backward: with respect to images and to weights.
KERNELS = {
    **dict.fromkeys(("empty", "empty_like", "empty_strided", "new_empty", "_unsafe_view", "_reshape_alias"), 0),
    **dict.fromkeys(("native_batch_norm", "cudnn_batch_norm"), 3),
    **dict.fromkeys(("native_batch_norm_backward", "cudnn_batch_norm_backward", "convolution_backward"), 2),
}
INDEXING = (aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_)


def kernels(func: Any) -> int:
    """How many kernels an operation launches."""
    return 0 if func.namespace != "aten" or func.is_view else KERNELS.get(func.overloadpacket.__name__, 1)


class FakeGenerator(Generator):
    """A generator of the fake device: without a driver there is no real one."""

    device = CUDA

    def manual_seed(self, seed: int) -> Generator:
        super().manual_seed(seed)
        return self  # and not a plain generator


@contextmanager
def fake_cuda() -> Iterator[None]:
    """Within, new tensors are fake, and `backward` and torch's foreach functions take them."""
    types = [Tensor, nn.Parameter, FakeTensor]
    with (
        mock.patch.object(Tensor, "backward", backward),
        mock.patch.object(_foreach_utils, "_foreach_supported_types", types),
        FakeTensorMode(allow_non_fake_inputs=True),
    ):
        yield


@contextmanager
def bf16() -> Iterator[None]:
    """torch.autocast("cuda"), which without a GPU does nothing but warn."""
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    torch.set_autocast_enabled("cuda", True)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", False)
        torch.clear_autocast_cache()


class Counter(TorchDispatchMode):
    """Within, counts what is launched on the device and names what would wait for it.

    Attributes:
        launches: kernels of each part, the body of `part(name)`; "other" is the rest. A few operations launch more
            kernels than `KERNELS` knows of.
        waits: copies between host and device that block, and selections by a mask. A copy to the device does not block
            if the tensor is pinned and the call says non_blocking.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.launches: Counts[str] = Counts()
        self.waits: list[str] = []
        self._part = "other"
        self._pinned: dict[int, Tensor] = {}  # by id, and kept lest another tensor get the same

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count what the body launches under this name."""
        outer, self._part = self._part, name
        try:
            yield
        finally:
            self._part = outer

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is aten._pin_memory.default:  # fake tensors cannot
            out = args[0].clone()
            self._pinned[id(out)] = out
            return out
        if self._is_wait(func.overloadpacket, args, kwargs):
            self.waits.append(f"{self._part}: {func}")
        out = func(*args, **kwargs)
        on_device = any(isinstance(x, Tensor) and x.is_cuda for x in tree_leaves((args, kwargs, out)))
        self.launches[self._part] += kernels(func) if on_device else 0
        return out

    def _is_wait(self, packet: Any, args: Any, kwargs: Any) -> bool:
        if packet in INDEXING:
            return any(index is not None and index.is_cuda and index.dtype == torch.bool for index in args[1])
        if packet is aten._to_copy:
            source, device, non_blocking = args[0], kwargs.get("device"), kwargs.get("non_blocking", False)
            to_device = source.is_cuda if device is None else torch.device(device).type == "cuda"
        elif packet is aten.copy_:
            source, to_device, non_blocking = args[1], args[0].is_cuda, len(args) > 2 and args[2]
        else:
            return False
        if source.is_cuda == to_device:
            return False
        return not (to_device and non_blocking and id(source) in self._pinned)


def on_fake_cuda(module: nn.Module) -> nn.Module:
    """The module with parameters and buffers of the same shapes on the fake device (`Module.to` cannot do it)."""
    for part in module.modules():
        for name, value in part._parameters.items():
            if value is not None:
                part._parameters[name] = nn.Parameter(torch.empty_like(value, device=CUDA))
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = torch.empty_like(buffer, device=CUDA)
    return module


def backward(loss: Tensor) -> None:
    """`loss.backward()` node by node: autograd's engine asks the driver for streams, and there is none."""
    root: Any = loss.grad_fn
    nodes, edges = [root], Counts[Any]()
    for node in nodes:  # which grows: each node once
        for following, _ in node.next_functions:
            if following is not None and (edges.update([following]) or edges[following] == 1):
                nodes.append(following)
    gradients: dict[Any, list[Any]] = {node: [None] * len(node._input_metadata) for node in nodes}
    gradients[root][0] = torch.ones_like(loss)
    ready = [root]
    while ready:
        node = ready.pop()
        given = gradients.pop(node)
        if hasattr(node, "variable"):  # a leaf
            leaf = node.variable
            leaf.grad = given[0] if leaf.grad is None else leaf.grad + given[0]
            continue
        with torch.no_grad():
            returned = node(*given) if callable(node) else node.apply(*given)  # the latter of a Function in Python
        returned = returned if isinstance(returned, tuple) else (returned,)
        # not strict: a Function in Python returns None, too, for what comes after its tensors
        for (following, slot), gradient in zip(node.next_functions, returned, strict=False):
            if following is None:
                continue
            slots, like = gradients[following], following._input_metadata[slot]
            if gradient is not None:  # the engine, too, sums over what the forward pass broadcast
                gradient = gradient.sum_to_size(like.shape).to(like.dtype)
                slots[slot] = gradient if slots[slot] is None else slots[slot] + gradient
            edges[following] -= 1
            if edges[following] == 0:
                ready.append(following)
