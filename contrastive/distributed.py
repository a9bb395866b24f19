"""Several processes as one: who we are, exact gradients across processes, and one voice towards the user.

A process holds its share of every batch. Embeddings are gathered with a gradient that flows back, each process takes
its share of the loss of the whole batch, and the gradients of the parameters are summed: what one process would have
computed on the whole batch, whatever the loss. Without a process group everything here is the identity.
"""

import datetime
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from tqdm import tqdm

from contrastive.refusal import Refusal, require
from contrastive.types import Share

T = TypeVar("T")
TIMEOUT = datetime.timedelta(hours=6)  # the others wait while the first process evaluates


def here() -> Share:
    """This process among all."""
    return Share(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else Share()


class _Gather(torch.autograd.Function):
    """Every process's tensor, one after the other; a gradient is the sum of what all processes want of ours."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        x = x.contiguous()
        parts = [torch.empty_like(x) for _ in range(here().world)]
        dist.all_gather(parts, x)
        return torch.cat(parts)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        gradient = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(gradient)
        return gradient[here().of(len(gradient))]


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
    return _Gather.apply(x) if here().world > 1 else x


def total(x: Tensor) -> Tensor:
    """The sum of a tensor over processes, differentiable."""
    return _Sum.apply(x) if here().world > 1 else x


@torch.no_grad()
def sum_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace every gradient by its sum over processes, in one exchange for each kind of number."""
    if here().world == 1:
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    for dtype in dict.fromkeys(g.dtype for g in gradients):  # in the same order everywhere
        some = [g for g in gradients if g.dtype == dtype]
        flat = torch.cat([g.flatten() for g in some])
        dist.all_reduce(flat)
        for gradient, summed in zip(some, flat.split([g.numel() for g in some]), strict=True):
            gradient.copy_(summed.view_as(gradient))


def first_says(task: Callable[[], T]) -> T:
    """Let the first process do something and tell the others what came of it.

    Raises:
        Refusal: in every process, when the first one's task raised it.
    """
    if here().world == 1:
        return task()
    said: list[Any] = [None, None]
    if here().rank == 0:
        try:
            said[0] = task()
        except Refusal as refusal:
            said[1] = str(refusal)
    dist.broadcast_object_list(said)
    if said[1] is not None:
        raise Refusal(said[1])
    return said[0]


def join(device: str) -> None:
    """Join the processes that torchrun or `launch` started beside this one; nothing to do where neither did.

    One GPU each where there are GPUs and `device` is not cpu, else an equal part of the processor's cores. Only the
    first process speaks.

    Raises:
        Refusal: fewer GPUs than processes.
    """
    if not started() or dist.is_initialized():
        return
    require("LOCAL_RANK" in os.environ, "RANK is set and LOCAL_RANK is not: try torchrun --nproc-per-node 2 train.py")
    require(":" not in device, f"device={device} names one GPU and there are several processes: try device=cuda")
    local, together = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    cuda = device != "cpu" and torch.cuda.is_available()
    if cuda:
        n = torch.cuda.device_count()
        require(n >= together, f"{together} processes need a GPU each and there are {n}: "
                             f"try devices={n} (torchrun: --nproc-per-node {n}), or device=cpu")
        torch.cuda.set_device(local)
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // together))
    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=TIMEOUT)
    if here().rank > 0:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (for as long as the process lives)


def leave() -> None:
    """Part from the other processes."""
    if dist.is_initialized():
        dist.destroy_process_group()


def started() -> bool:
    """Whether this process is one of several already."""
    return "RANK" in os.environ


def launch(n: int, task: Callable[..., Any], *arguments: Any) -> None:
    """Run task(*arguments) in n processes of this machine; it must be importable by name, and `join`.

    Raises:
        Refusal: when the task does. ProcessRaisedException: any other failure, with its traceback.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    logging.getLogger("torch.multiprocessing.spawn").setLevel(logging.ERROR)  # that it ends the others is no news
    with tempfile.NamedTemporaryFile("r") as refusal:
        try:
            mp.start_processes(_worker, (n, port, refusal.name, task, arguments), nprocs=n, daemon=True,
                               start_method="spawn")
        except mp.ProcessExitedException:
            if said := refusal.read():
                raise Refusal(said) from None
            raise


def _worker(rank: int, n: int, port: int, path: str, task: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    tqdm.set_lock(threading.RLock())  # its own lock is a semaphore that a process which is stopped leaves behind
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # the parent says that it was interrupted
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(n), LOCAL_WORLD_SIZE=str(n),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    try:
        task(*arguments)
    except Refusal as refusal:  # whoever refuses ends all
        Path(path).write_text(str(refusal))
        os._exit(2)
    leave()
