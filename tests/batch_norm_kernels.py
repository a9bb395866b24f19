"""torch's CUDA kernels of synchronized BatchNorm, written in operations that every device has."""

import pytest
import torch
from torch import Tensor


def _axes(x: Tensor) -> list[int]:
    return [0, *range(2, x.dim())]


def _broad(value: Tensor, x: Tensor) -> Tensor:
    return value.view(1, -1, *[1] * (x.dim() - 2))


def _float(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def batch_norm_stats(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    variance, mean = torch.var_mean(_float(x), _axes(x), correction=0)
    return mean, (variance + eps).rsqrt()


def batch_norm_gather_stats_with_counts(
    x: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """(world, C) of each process → (C,) of all, and the running statistics moved by it."""
    share, n = (counts / counts.sum())[:, None], counts.sum()
    center = (share * mean).sum(0)
    variance = (share * (invstd**-2 - eps + (mean - center) ** 2)).sum(0)
    if running_mean is not None:
        running_mean.copy_((1 - momentum) * running_mean + momentum * center)
        running_var.copy_((1 - momentum) * running_var + momentum * variance * n / (n - 1))
    return center, (variance + eps).rsqrt()


def batch_norm_elemt(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, eps: float, *, out: Tensor
) -> Tensor:
    y = (_float(x) - _broad(mean, x)) * _broad(invstd, x)
    y = y if weight is None else y * _broad(weight, x)
    return out.copy_(y if bias is None else y + _broad(bias, x))


def batch_norm_backward_reduce(
    dy: Tensor, x: Tensor, mean: Tensor, invstd: Tensor, weight: Tensor | None, of_x: bool, of_w: bool, of_b: bool
) -> tuple[Tensor | None, ...]:
    assert (of_x, of_w, of_b) == (True, False, False)
    dy = _float(dy)
    return dy.sum(_axes(x)), (dy * (_float(x) - _broad(mean, x))).sum(_axes(x)), None, None


def batch_norm_backward_elemt(
    dy: Tensor,
    x: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    count: Tensor,
) -> Tensor:
    assert count.dtype == torch.int32
    n = count.sum()
    slope = _broad(invstd**2 * sum_dy_xmu / n, x)
    dx = _float(dy) - _broad(sum_dy / n, x) - (_float(x) - _broad(mean, x)) * slope
    return (dx * _broad(invstd if weight is None else invstd * weight, x)).to(x.dtype)


KERNELS = (
    batch_norm_stats,
    batch_norm_gather_stats_with_counts,
    batch_norm_elemt,
    batch_norm_backward_reduce,
    batch_norm_backward_elemt,
)


def use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put them in place of torch's, which a machine without a GPU cannot run."""
    for kernel in KERNELS:
        monkeypatch.setattr(torch, kernel.__name__, kernel)
