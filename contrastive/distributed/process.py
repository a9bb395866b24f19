"""Process groups, differentiable collectives and gradient averaging.

Each process holds its shard of every batch. Embeddings are gathered with a gradient that flows back, each process
computes the loss of its own anchors among all candidates, and gradients are averaged over processes, as in
DistributedDataParallel. The result is what one process would compute on the whole batch. Without a process group all
functions here are the identity.
"""

import datetime
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import PrefixStore, rendezvous  # type: ignore[attr-defined]

from contrastive.distributed.hardware import n_cores
from contrastive.errors import ConfigError
from contrastive.gathering import shard_of
from contrastive.types import Shard

T = TypeVar("T")
# The longest wait is for rank 0 to download and decode a dataset; a lost peer is noticed after as long.
TIMEOUT = datetime.timedelta(minutes=30)


def rank() -> int:
    """The number of this process, 0 if there is only one."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """The number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def shard() -> Shard:
    """The shard of every batch that this process holds."""
    return shard_of()


def is_main() -> bool:
    """Whether this is rank 0, which prints and writes files."""
    return rank() == 0


def is_launched() -> bool:
    """Whether a launcher has started this process beside others."""
    return "RANK" in os.environ


@torch.no_grad()
def all_reduce_sum(x: Tensor) -> Tensor:
    """The sum of a tensor over processes, without a gradient."""
    if world_size() == 1:
        return x
    total = x.clone()
    dist.all_reduce(total)
    return total


@torch.no_grad()
def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace every gradient by its mean over processes, with one all-reduce for each dtype."""
    if world_size() == 1:
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    for dtype in dict.fromkeys(g.dtype for g in gradients):  # every process must reduce in the same order
        bucket = [g for g in gradients if g.dtype == dtype]
        flat = torch.cat([g.flatten() for g in bucket])
        dist.all_reduce(flat)
        means = torch.split(flat / world_size(), [g.numel() for g in bucket])
        torch._foreach_copy_(bucket, [mean.view_as(g) for g, mean in zip(bucket, means, strict=True)])


def broadcast_from_main(task: Callable[[], T]) -> T:
    """Run `task` on rank 0 and return its result on every rank.

    Raises:
        ConfigError: on every rank, if the task raised it on rank 0.
    """
    with main_process_first():
        result = [task() if is_main() else None]
    if world_size() > 1:
        dist.broadcast_object_list(result)
    return cast(T, result[0])


@contextmanager
def main_process_first() -> Iterator[None]:
    """Run the body on rank 0 and, when it is done there, on the other ranks, which then find its files.

    Raises:
        ConfigError: on every rank, if the body raised it on rank 0.
    """
    if not is_main():
        _share_error(None)
    try:
        yield
    except ConfigError as error:
        if is_main():
            _share_error(str(error))
        raise
    if is_main():
        _share_error(None)


def _share_error(error: str | None) -> None:
    """Send the error of rank 0, if any, to the other ranks, which raise it; they wait here until rank 0 calls this."""
    message = [error]
    if world_size() > 1:
        dist.broadcast_object_list(message)
    if message[0] is not None and not is_main():
        raise ConfigError(message[0])


def init(device: str) -> None:
    """Join the processes that torchrun, Slurm or `launch` started beside this one; no-op of a single process.

    Each process takes one GPU unless `device` is cpu or there are none, else an equal share of the CPU cores. The
    standard output of ranks > 0 is discarded.

    Raises:
        ConfigError: one GPU named for several processes.
    """
    if not is_launched():
        os.environ.update(torchrun_variables(os.environ))
    if not is_launched() or dist.is_initialized():
        return
    if ":" in device:
        raise ConfigError(f"device={device} names one GPU and there are several processes: try device=cuda")
    local_rank, local_world_size = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    torch.set_num_threads(max(1, n_cores() // local_world_size))
    if device != "cpu" and torch.cuda.is_available():  # with the device NCCL connects here, and not in the first step
        torch.cuda.set_device(local_rank)
        gpu = torch.device("cuda", local_rank)
        dist.init_process_group("cpu:gloo,cuda:nccl", timeout=TIMEOUT, device_id=gpu, **_meeting_place())
    else:
        dist.init_process_group("gloo", timeout=TIMEOUT, **_meeting_place())
    if not is_main():
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (open until the process ends)


def torchrun_variables(slurm: Mapping[str, str]) -> dict[str, str]:
    """What torchrun would set in this task of a job step; {} outside of one, or in a step of a single task.

    A batch script that calls no srun is such a single task, however many the job has asked for.

    Args:
        slurm: the environment of the task. Port 20000 + the last four digits of the job's number is taken to be free.
    """
    n = slurm.get("SLURM_STEP_NUM_TASKS", "1")
    if n == "1" or "SLURM_PROCID" not in slurm:
        return {}
    tasks = tasks_per_node(slurm["SLURM_STEP_TASKS_PER_NODE"])
    return {
        "RANK": slurm["SLURM_PROCID"],
        "WORLD_SIZE": n,
        "LOCAL_RANK": slurm["SLURM_LOCALID"],
        "LOCAL_WORLD_SIZE": str(tasks[int(slurm["SLURM_NODEID"])]),
        "MASTER_ADDR": first_node(slurm["SLURM_STEP_NODELIST"]),
        "MASTER_PORT": str(20_000 + int(slurm["SLURM_JOB_ID"]) % 10_000),
    }


def first_node(nodes: str) -> str:
    """The first name of Slurm's list: gpu03 of `gpu[03-05,9],login1`."""
    return re.sub(r"\[([^],-]+)[^]]*\]", r"\1", nodes).split(",")[0]


def tasks_per_node(tasks: str) -> list[int]:
    """Slurm's list of counts: [8, 8, 4] of `8(x2),4`."""
    counts = re.findall(r"(\d+)(?:\(x(\d+)\))?", tasks)
    return [int(n) for n, repeats in counts for _ in range(int(repeats or 1))]


def _meeting_place() -> dict[str, Any]:
    """Arguments of init_process_group with which processes that torchrun has restarted find each other.

    torchrun keeps one store through its restarts, with the addresses of processes that are gone (pytorch#135712): who
    reads one before its owner has written the new one would wait until the timeout. Here each restart has keys of its
    own. Machines count their restarts apart, so that several need a new store each time: docs/scaling.md.
    """
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if restarts == "0" or os.environ["LOCAL_WORLD_SIZE"] != os.environ["WORLD_SIZE"]:
        return {}
    store, rank, world_size = next(rendezvous("env://", timeout=TIMEOUT))
    return {"store": PrefixStore(f"restart {restarts}", store), "rank": rank, "world_size": world_size}


def shutdown() -> None:
    """Destroy the process group."""
    if dist.is_initialized():
        dist.destroy_process_group()


def any_process(*flags: bool) -> list[bool]:
    """Whether each is set in any process. Every process must call this at the same place; it waits for no device."""
    return [n > 0 for n in all_reduce_sum(torch.tensor(flags, dtype=torch.int)).tolist()]


def from_all(value: T) -> list[T]:
    """The value of each process, in rank order."""
    if world_size() == 1:
        return [value]
    values: list[Any] = [None] * world_size()
    dist.all_gather_object(values, value)
    return values
