"""Several processes as one: who we are, exact gradients across processes, and one voice towards the user.

A process holds its share of every batch. Embeddings are gathered with a gradient that flows back, each process takes
its share of the loss of the whole batch, and the gradients of the parameters are summed: what one process would have
computed on the whole batch, whatever the loss. Without a process group everything here is the identity.
"""

import datetime
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from contrastive.errors import ConfigError
from contrastive.types import Shard

T = TypeVar("T")
TIMEOUT = datetime.timedelta(hours=6)  # the others wait while the first process evaluates


def shard() -> Shard:
    """This process among all."""
    return Shard(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else Shard()


class _Gather(torch.autograd.Function):
    """Every process's tensor, one after the other; a gradient is the sum of what all processes want of ours."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        x = x.contiguous()
        parts = [torch.empty_like(x) for _ in range(shard().world_size)]
        dist.all_gather(parts, x)
        return torch.cat(parts)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        gradient = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(gradient)
        return gradient[shard().of(len(gradient))]


class _Sum(torch.autograd.Function):
    """The sum over processes; so is its gradient."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        gradient = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(gradient)
        return gradient


def gather(x: Tensor) -> Tensor:
    """(B / world, ...) of each process → (B, ...) of all, differentiable."""
    return _Gather.apply(x) if shard().world_size > 1 else x


def all_reduce_sum(x: Tensor) -> Tensor:
    """The sum of a tensor over processes, differentiable."""
    return _Sum.apply(x) if shard().world_size > 1 else x


@torch.no_grad()
def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace every gradient by its sum over processes, in one exchange for each kind of number."""
    if shard().world_size == 1:
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    for dtype in dict.fromkeys(g.dtype for g in gradients):  # in the same order everywhere
        some = [g for g in gradients if g.dtype == dtype]
        flat = torch.cat([g.flatten() for g in some])
        dist.all_reduce(flat)
        for gradient, summed in zip(some, flat.split([g.numel() for g in some]), strict=True):
            gradient.copy_(summed.view_as(gradient))


def broadcast_from_main(task: Callable[[], T]) -> T:
    """Let the first process do something and tell the others what came of it.

    Raises:
        ConfigError: in every process, when the first one's task raised it.
    """
    if shard().world_size == 1:
        return task()
    said: list[Any] = [None, None]
    if shard().rank == 0:
        try:
            said[0] = task()
        except ConfigError as refusal:
            said[1] = str(refusal)
    dist.broadcast_object_list(said)
    if said[1] is not None:
        raise ConfigError(said[1])
    return said[0]


def init(device: str) -> None:
    """Join the processes that torchrun or `launch` started beside this one; nothing to do where neither did.

    One GPU each where there are GPUs and `device` is not cpu, else an equal part of the processor's cores. Only the
    first process speaks.

    Raises:
        ConfigError: fewer GPUs than processes.
    """
    if not is_launched() or dist.is_initialized():
        return
    if "LOCAL_RANK" not in os.environ:
        raise ConfigError("RANK is set and LOCAL_RANK is not: try torchrun --nproc-per-node 2 train.py")
    if ":" in device:
        raise ConfigError(f"device={device} names one GPU and there are several processes: try device=cuda")
    local, together = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    cuda = device != "cpu" and torch.cuda.is_available()
    if cuda:
        n = torch.cuda.device_count()
        if not n >= together:
            raise ConfigError(
                f"{together} processes need a GPU each and there are {n}: "
                f"try devices={n} (torchrun: --nproc-per-node {n}), or device=cpu"
            )
        torch.cuda.set_device(local)
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // together))
    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=TIMEOUT)
    if shard().rank > 0:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (for as long as the process lives)


def shutdown() -> None:
    """Part from the other processes."""
    if dist.is_initialized():
        dist.destroy_process_group()


def is_launched() -> bool:
    """Whether this process is one of several already."""
    return "RANK" in os.environ


def rank() -> int:
    return shard().rank


def world_size() -> int:
    return shard().world_size


def is_main() -> bool:
    return rank() == 0


@contextmanager
def main_process_first():
    yield
