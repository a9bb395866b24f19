"""Small plain values exchanged between the processes of a run. Without a process group they stay what they are."""

from typing import Any, TypeVar

import torch
import torch.distributed as dist

from contrastive.distributed.process import world_size

T = TypeVar("T")


def any_process(*flags: bool) -> tuple[bool, ...]:
    """Each flag: whether it is set in any process. Every process must call this at the same place."""
    if world_size() == 1:
        return flags
    values = torch.tensor(flags, dtype=torch.uint8)  # on the CPU, where the exchange does not wait for the device
    dist.all_reduce(values, dist.ReduceOp.MAX)
    return tuple(map(bool, values.tolist()))


def from_all(value: T) -> list[T]:
    """The value of each process, in rank order."""
    if world_size() == 1:
        return [value]
    values: list[Any] = [None] * world_size()
    dist.all_gather_object(values, value)
    return values
