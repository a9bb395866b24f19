"""The differentiable gather of a batch that many processes share, and gradients without a derivative of their own."""

from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.types import Shard

Group = dist.ProcessGroup | None  # None = all processes


class _Gather(torch.autograd.Function):
    """Concatenates the tensors of all ranks. Backward sums the gradients of all ranks and returns the local slice."""

    @staticmethod
    def forward(context: Any, x: Tensor, group: Group) -> Tensor:
        context.group = group
        whole = x.new_empty(dist.get_world_size(group) * len(x), *x.shape[1:])
        dist.all_gather_into_tensor(whole, x.contiguous(), group)
        # torch 2.11 compiles a buffer that is written into as one that has no gradient
        return whole.clone() if torch.compiler.is_compiling() else whole

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        part = gradient.new_empty(len(gradient) // dist.get_world_size(context.group), *gradient.shape[1:])
        with torch.no_grad():
            dist.reduce_scatter_tensor(part, gradient.contiguous(), group=context.group)
        return once(part, gradient), None


def shard_of(group: Group = None) -> Shard:
    """The part of a batch that this process holds among those of the group; all of it without a process group."""
    return Shard(dist.get_rank(group), dist.get_world_size(group)) if dist.is_initialized() else Shard()


def gather(x: Tensor, group: Group = None) -> Tensor:
    """(b, ...) of each process → (B, ...) of all, in rank order; the same b everywhere.

    Differentiable: the gradients of all processes are added up, so that the mean over processes of their losses has the
    gradient of one process with the whole batch. Without a process group it is the identity.
    """
    return cast(Tensor, _Gather.apply(x, group)) if shard_of(group).world_size > 1 else x


def check_equal_sizes(x: Tensor, group: Group = None) -> None:
    """Raise ConfigError, in every process, unless all hold as many rows. It waits for the device."""
    sizes = gather(torch.tensor([len(x)], device=x.device), group).tolist()
    if len(set(sizes)) > 1:
        raise ConfigError(
            f"gather needs batches of equal size, and the processes have {', '.join(map(str, sizes))}: "
            "try drop_last=True in the DataLoader"
        )


class _Once(torch.autograd.Function):
    """The identity, which hangs on `source` in the graph, and whose derivative is an error."""

    generate_vmap_rule = True

    @staticmethod
    def forward(gradient: Tensor, source: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def setup_context(context: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> None:
        raise RuntimeError(
            "a loss has no second derivative with a push, in tiles or across processes: "
            "try push=1, fewer images in a batch, and one process"
        )


def once(gradient: Tensor, source: Tensor) -> Tensor:
    """A gradient that was computed from the source; to differentiate it is a RuntimeError.

    torch's `once_differentiable` hangs it on nothing, so that torch.autograd.grad leaves its part out in silence.
    """
    return gradient if torch.compiler.is_compiling() else cast(Tensor, _Once.apply(gradient, source))
