"""What tests/gpu/test_cuda.py runs in processes of its own.

Nothing here asks for a GPU when it is imported: a process of a pool imports it before it knows which GPU it may see.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import torch
from torch import Tensor, nn

from contrastive.distributed.batch_norm import convert_batch_norm, views_apart
from contrastive.distributed.process import all_reduce_sum, init, rank, shard
from contrastive.experiment.run import run_experiment
from tests.helpers import compose_settings


@dataclass(frozen=True)
class Run:
    """Trains; returns whether CUDA had started before, how many GPUs it sees, the UUID of the first, kNN's accuracy."""

    words: tuple[str, ...]
    path: Path

    def __call__(self) -> tuple[bool, int, str, float]:
        had_started = torch.cuda.is_initialized()
        result = run_experiment(compose_settings(*self.words), self.path)
        gpu = str(torch.cuda.get_device_properties(0).uuid)
        return had_started, torch.cuda.device_count(), gpu, result["test"]["knn_top1"]


def check_batch_norm(device: str, compiled: bool) -> None:
    """In each of several processes: on its part of a batch BatchNorm is that of one process, and never waits."""
    init(device)
    place = "cpu" if device == "cpu" else f"{device}:{rank()}"
    formats = (torch.contiguous_format, torch.channels_last)
    cases = [(torch.bfloat16, 3, True, torch.channels_last)]
    for dtype, n_views, has_bias, layout in (
        cases if compiled else product((torch.float32, torch.bfloat16), (1, 3), (True, False), formats)
    ):
        rng = torch.Generator().manual_seed(0)
        x, w = (torch.randn(n_views, 32, 8, 6, 6, generator=rng).to(place, dtype) for _ in range(2))
        alone, shared = (batch_norm(has_bias).to(place) for _ in range(2))
        expected = results(lambda x: torch.cat([alone(view) for view in x.chunk(n_views)]), 3 * x + 2, w, layout)  # noqa: B023
        norms, part = convert_batch_norm(shared), shard().of(32)
        forward = torch.compile(shared, fullgraph=True, dynamic=False) if compiled else shared
        if place != "cpu" and not compiled:
            torch.cuda.set_sync_debug_mode("error")
        with views_apart(norms, n_views):
            found = results(forward, 3 * x[:, part] + 2, w[:, part], layout)
        if place != "cpu":
            torch.cuda.set_sync_debug_mode("default")
        tolerance = 1e-4 if dtype == torch.float32 else 2e-2
        pairs = list(zip(found, (value[:, part] for value in expected), strict=True))
        pairs += [
            (all_reduce_sum(p.grad), q.grad) for p, q in zip(shared.parameters(), alone.parameters(), strict=True)
        ]
        pairs += list(zip(shared.buffers(), alone.buffers(), strict=True))
        for mine, theirs in pairs:
            error = ((mine - theirs).abs().max() / theirs.abs().max()).item()
            assert error < tolerance, f"{dtype}, {n_views} views, bias {has_bias}, {layout}: off by {error}"


def batch_norm(has_bias: bool) -> nn.BatchNorm2d:
    """One that scales each channel differently."""
    norm = nn.BatchNorm2d(8)
    norm.weight.data = torch.arange(1.0, 9.0)
    if not has_bias:
        norm.register_parameter("bias", None)
    return norm


def results(forward: Callable[[Tensor], Tensor], x: Tensor, w: Tensor, layout: torch.memory_format) -> list[Tensor]:
    """Output and gradient (V, B, C, H, W) of the sum of w · forward(x)."""
    free = x.flatten(0, 1).contiguous(memory_format=layout).requires_grad_()
    out = forward(free)
    (out * w.flatten(0, 1)).sum().backward()
    assert free.grad is not None
    return [value.detach().unflatten(0, x.shape[:2]) for value in (out, free.grad)]
