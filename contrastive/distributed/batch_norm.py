"""Batch normalization over the samples of all processes, and of each view apart."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from contrastive.distributed.process import world_size
from contrastive.gathering import gather
from contrastive.types import widen

BatchNorm = nn.modules.batchnorm._BatchNorm  # the common base of BatchNorm1d, 2d, 3d and SyncBatchNorm


class StepBatchNorm(BatchNorm):
    """What a BatchNorm becomes for training steps: mean and variance of all processes' samples, of each view apart.

    One process calls the layer it was on one view after the other: values and running statistics are those of as many
    forward passes, and the other layers of the network see all views at once. Several processes exchange the
    statistics of all views together: one all-gather forward, one collective backward. Every process must hold equally
    many samples, so that nothing depends on counts that only the device knows; nn.SyncBatchNorm waits for them three
    times a layer. The running statistics take the views in their order.

    Layers below it are called on its output: timm's BatchNormAct2d has its dropout and its activation there.

    Shapes: (V · B, C, ...) → (V · B, C, ...), the views in order.
    """

    n_views = 1  # set by `views_apart`

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or world_size() == self.n_views == 1:
            return super().forward(x)
        if world_size() == 1 and not torch.compiler.is_compiling():
            return torch.cat([super(StepBatchNorm, self).forward(view) for view in x.chunk(self.n_views)])
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(self.n_views)
        x = self._by_operations(x)
        for layer in self.children():
            x = layer(x)
        return x

    def _by_operations(self, x: Tensor) -> Tensor:
        views = x.unflatten(0, (self.n_views, -1))
        out, mean, variance = _ByOperations.apply(views, self.weight, self.bias, self.eps)
        self._update_running_stats(mean, variance, world_size() * x.numel() / mean.numel())
        # Flattened here: what a Function returns must be no view, or layers that work in place refuse it.
        return cast(Tensor, out.flatten(0, 1))

    @torch.no_grad()
    def _update_running_stats(self, mean: Tensor, variance: Tensor, n: float) -> None:
        """Of each view in turn, by (V, C) means and variances of n values."""
        if self.running_mean is None or self.running_var is None:
            return
        assert self.momentum is not None
        # n / (n - 1): torch normalizes by the biased variance and remembers the unbiased one
        for running, statistic in ((self.running_mean, mean), (self.running_var, variance * n / (n - 1))):
            for view in statistic.to(running.dtype):
                running.lerp_(view, self.momentum)


class _ByOperations(torch.autograd.Function):
    """(V, B, C, ...) normalized, with (V, C) means and variances: one reduction over all views, and one back.

    The gradient is written out: autograd's would keep the centered views, and read each view once more.
    """

    @staticmethod
    def forward(
        context: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        variance, mean = _statistics(x)
        if world_size() > 1:  # else the compiler, to whom a stack is a barrier, would keep x - mean in float32
            variances, means = gather(torch.stack([variance, mean])[None]).unbind(1)  # (world, V, C)
            # Equal shares: the variance of all is the mean of the variances and the variance of the means.
            mean, variance = means.mean(0), variances.mean(0) + means.var(0, correction=0)
        invstd = (variance + eps).rsqrt()
        scale = invstd if weight is None else invstd * weight
        # Centered first: in float32 x · scale and the shift by the mean are large where the mean is, and cancel.
        out = (widen(x) - _broad(mean, x)) * _broad(scale, x)
        out = out if bias is None else out + _broad(bias[None], x)
        context.save_for_backward(x, weight, mean, invstd)
        context.has_bias = bias is not None
        context.mark_non_differentiable(mean, variance)
        # torch 2.11, compiled, loses the gradient of a Function that ends in a conversion to the type it has
        return out if out.dtype == x.dtype else out.to(x.dtype), mean, variance

    @staticmethod
    def backward(context: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, invstd = context.saved_tensors
        dy, centered = widen(gradient), widen(x) - _broad(mean, x)
        sum_dy, sum_dy_xmu = dy.sum(_axes(x)), (dy * centered).sum(_axes(x))  # (V, C)
        # before the all-reduce: gradients of parameters are averaged with all others, after the backward pass
        of_weight = None if weight is None else (sum_dy_xmu * invstd).sum(0)
        of_bias = sum_dy.sum(0) if context.has_bias else None
        if world_size() > 1:
            sums = torch.stack([sum_dy, sum_dy_xmu])
            dist.all_reduce(sums)
            sum_dy, sum_dy_xmu = sums.unbind()
        n = world_size() * x.numel() / mean.numel()
        slope = sum_dy_xmu / n * invstd.square()
        scale = invstd if weight is None else invstd * weight
        dx = (dy - _broad(sum_dy / n, x) - centered * _broad(slope, x)) * _broad(scale, x)
        return dx.to(x.dtype), of_weight, of_bias, None


def _statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """(V, C) variances and means of (V, B, C, ...)."""
    x, axes = widen(x), _axes(x)
    if torch.compiler.is_compiling():  # one pass, by Welford's sums in a tree
        return torch.var_mean(x, axes, correction=0)
    # Eager var_mean adds one value after the other. Where a channel is all but constant, the rounding of its mean is
    # then multiplied by up to 1 / sqrt(eps) = 316, and two processes part from one within ten steps.
    mean = x.mean(axes)
    return (x - _broad(mean, x)).square().mean(axes), mean


def _axes(x: Tensor) -> list[int]:
    """Of (V, B, C, ...), those that statistics of each view and channel are taken over."""
    return [1, *range(3, x.dim())]


def _broad(value: Tensor, x: Tensor) -> Tensor:
    """(V, C), or (1, C) for all views, to be broadcast over x (V, B, C, ...)."""
    return value.view(len(value), 1, -1, *[1] * (x.dim() - 3))


def convert_batch_norm(*modules: nn.Module) -> list[StepBatchNorm]:
    """Make every BatchNorm below `modules` a `StepBatchNorm` in place, and return them.

    Parameters, names and classes stay: the new class derives from that of the layer.
    """
    layers = [layer for module in modules for layer in module.modules() if isinstance(layer, BatchNorm)]
    kinds = {type(layer) for layer in layers}
    derived = {
        kind: kind if issubclass(kind, StepBatchNorm) else type(f"Step{kind.__name__}", (StepBatchNorm, kind), {})
        for kind in kinds
    }
    for layer in layers:
        layer.__class__ = derived[type(layer)]
    return layers  # type: ignore[return-value]


@contextmanager
def views_apart(layers: list[StepBatchNorm], n_views: int) -> Iterator[None]:
    """Let these layers take their input as so many views of equal size, each with statistics of its own."""
    for layer in layers:
        layer.n_views = n_views
    try:
        yield
    finally:
        for layer in layers:
            layer.n_views = 1
