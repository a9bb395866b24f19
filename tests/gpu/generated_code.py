"""What torch.compile makes of a network for an H100, counted without one: its kernels, and the bytes they move.

The network is traced on a CPU, without data. Its graphs are then moved to a GPU that has nothing but an H100's numbers,
and lowered there; nothing is run. torch has no public way to do that: this goes through private parts of inductor as
they are in `TORCH`.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, fx
from torch._dynamo.device_interface import CudaInterface
from torch._functorch.aot_autograd import make_boxed_func
from torch._inductor import compile_fx
from torch._inductor.debug import DebugContext
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils._triton import has_triton

TORCH = "2.15"
CUDA = torch.device("cuda:0")
H100 = SimpleNamespace(
    name="NVIDIA H100 80GB HBM3", major=9, minor=0, multi_processor_count=132, warp_size=32,
    regs_per_multiprocessor=65_536, max_threads_per_multi_processor=2_048, max_threads_per_block=1_024,
    shared_memory_per_block=49_152, shared_memory_per_block_optin=232_448, L2_cache_size=50 * 2**20,
    total_memory=80 * 2**30,
)  # fmt: skip


@dataclass
class Generated:
    """Of one graph: kernels that are generated, calls of libraries, and bytes read and written by each kind."""

    kernels: int = 0
    calls: int = 0
    kernel_bytes: int = 0
    call_bytes: int = 0


def generated(network: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Generated, Generated]:
    """Of the forward pass and of the backward pass of a network.

    Args:
        network: made in the `FakeTensorMode` of x.
        x: what it gets, on the CPU.
    """
    counts: list[Generated] = []

    def count(graph: fx.GraphModule, inputs: list[Any], is_backward: bool = False, **_: Any) -> Callable[..., Any]:
        counts.append(lowered(graph, inputs, is_backward=is_backward))
        return make_boxed_func(graph.forward)

    def backend(graph: fx.GraphModule, inputs: list[Any]) -> Any:
        return compile_fx.compile_fx(graph, inputs, inner_compile=count)

    torch.compile(network, backend=backend, dynamic=False, fullgraph=True)(x).sum().backward()
    forward, backward = counts
    return forward, backward


def lowered(graph: fx.GraphModule, inputs: list[Any], *, is_backward: bool) -> Generated:
    """What the graph becomes on the pretended H100."""
    mode, graph = torch._guards.detect_fake_mode(inputs), fx.GraphModule(graph, graph.graph.__deepcopy__({}))
    assert isinstance(mode, FakeTensorMode)
    for node in graph.graph.nodes:
        if "device" in node.kwargs:
            node.kwargs = {**node.kwargs, "device": CUDA}
    with mode:
        inputs = [
            torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=CUDA) if isinstance(x, Tensor) else x
            for x in inputs
        ]
    found = Generated()
    with pretended_h100(), V.set_fake_mode(mode), DebugContext():
        FakeTensorProp(graph, mode).propagate(*inputs)
        compile_fx._recursive_post_grad_passes(graph, is_inference=False)
        compile_fx.record_original_output_strides(graph)
        made = GraphLowering(graph, shape_env=mode.shape_env, example_inputs=inputs, is_backward=is_backward)
        with V.set_graph_handler(made), V.set_real_inputs(inputs):
            made.run(*inputs)
            made._update_scheduler()
            for node in made.scheduler.nodes:
                moved = node.get_read_write_buffers_sizes()
                if moved == 0:  # one of several outputs of a call
                    continue
                if node.is_extern():
                    found.calls, found.call_bytes = found.calls + 1, found.call_bytes + moved
                else:
                    found.kernels, found.kernel_bytes = found.kernels + 1, found.kernel_bytes + moved
    return found


@contextmanager
def pretended_h100() -> Iterator[None]:
    """Within, inductor asks a GPU for its numbers and gets those of an H100, and convolutions keep the layout of their
    images, as cuDNN's do: without a GPU torch takes them for ones that do not, and copies behind them are counted."""
    answers: dict[str, Callable[..., Any]] = {
        "get_device_properties": lambda device=None: H100,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
    }
    others: dict[str, Callable[..., Any]] = {
        "get_device_capability": lambda device=None: (H100.major, H100.minor),
        "is_available": lambda: True,
        "_lazy_init": lambda: None,
    }
    has_triton.cache_clear()  # an earlier test may have asked without a GPU
    with ExitStack() as stack:
        stack.callback(has_triton.cache_clear)
        for name, answer in (answers | others).items():
            stack.enter_context(mock.patch.object(torch.cuda, name, answer))
        for name, answer in answers.items():
            stack.enter_context(mock.patch.object(CudaInterface, name, staticmethod(answer)))
        layout = "_conv_determine_backend_memory_format"
        stack.enter_context(mock.patch.object(torch._C, layout, lambda x, *_: suggest_memory_format(x)))
        yield
