"""Batch normalization over the samples of all processes, and of each view apart."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
        if world_size() == 1:
            return torch.cat([super(StepBatchNorm, self).forward(view) for view in x.chunk(self.n_views)])
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(self.n_views)
        # The kernels are opaque to torch.compile, which fuses plain operations with the layers around.
        x = self._by_kernels(x) if x.is_cuda and not torch.compiler.is_compiling() else self._by_operations(x)
        for layer in self.children():
            x = layer(x)
        return x

    def _by_kernels(self, x: Tensor) -> Tensor:
        running = (self.running_mean, self.running_var, self.momentum)
        out: Tensor = _Normalize.apply(x, self.weight, self.bias, *running, self.eps, self.n_views)
        return out

    def _by_operations(self, x: Tensor) -> Tensor:
        axes, shape = [0, *range(2, x.dim())], [1, -1] + [1] * (x.dim() - 2)
        views = widen(x).chunk(self.n_views)
        # Centered before it is squared: E[x²] - E[x]² of float32 loses the variance where the mean is large.
        local = [view.mean(axes) for view in views]
        centered = [view - mean.view(shape) for view, mean in zip(views, local, strict=True)]
        statistics = torch.stack([*local, *(view.square().mean(axes) for view in centered)])  # (2V, C)
        means, variances = gather(statistics[None]).chunk(2, dim=1)  # (world, V, C)
        # Equal shares: the variance of all is the mean of the variances and the variance of the means.
        mean, variance = means.mean(0), variances.mean(0) + means.var(0, correction=0)
        self._update_running_stats(mean.detach(), variance.detach(), world_size() * views[0].numel() / x.shape[1])
        scale = (variance + self.eps).rsqrt() * (1 if self.weight is None else self.weight)
        # `centered` lacks the local mean, not that of all: the difference goes into the shift.
        shift = (torch.stack(local) - mean) * scale + (0 if self.bias is None else self.bias)
        out = [c * a.view(shape) + b.view(shape) for c, a, b in zip(centered, scale, shift, strict=True)]
        return _joined(out).to(x.dtype)

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


class _Normalize(torch.autograd.Function):
    """The CUDA kernels of nn.SyncBatchNorm, view by view between its two collectives."""

    @staticmethod
    def forward(
        context: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        momentum: float,
        eps: float,
        n_views: int,
    ) -> Tensor:
        x = _dense(x)
        out, views = torch.empty_like(x), x.chunk(n_views)
        local = torch.stack([value for view in views for value in torch.batch_norm_stats(view, eps)])
        world = gather(local[None])  # (world, 2V, C): mean and 1 / deviation of each view
        counts = local.new_full((len(world),), views[0].numel() // x.shape[1])
        statistics: list[Tensor] = []
        for i, (view, target) in enumerate(zip(views, out.chunk(n_views), strict=True)):
            mean, invstd = torch.batch_norm_gather_stats_with_counts(
                local, world[:, 2 * i], world[:, 2 * i + 1], running_mean, running_var, momentum, eps, counts
            )
            torch.batch_norm_elemt(view, weight, bias, mean, invstd, eps, out=target)
            statistics += [mean, invstd]
        context.save_for_backward(x, weight, counts.int(), *statistics)
        context.has_bias = bias is not None
        return out

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, counts, *statistics = context.saved_tensors
        means, invstds = statistics[::2], statistics[1::2]
        views = list(zip(_dense(gradient).chunk(len(means)), x.chunk(len(means)), means, invstds, strict=True))
        local = [
            torch.batch_norm_backward_reduce(dy, view, mean, invstd, weight, True, False, False)
            for dy, view, mean, invstd in views
        ]
        sums = torch.stack([value for sum_dy, sum_dy_xmu, *_ in local for value in (sum_dy, sum_dy_xmu)])  # (2V, C)
        # before the all-reduce: gradients of parameters are averaged with all others, after the backward pass
        of_weight = None if weight is None else (sums[1::2] * torch.stack(invstds)).sum(0)
        of_bias = sums[::2].sum(0) if context.has_bias else None
        dist.all_reduce(sums)
        dx = [
            torch.batch_norm_backward_elemt(dy, view, mean, invstd, weight, sums[2 * i], sums[2 * i + 1], counts)
            for i, (dy, view, mean, invstd) in enumerate(views)
        ]
        return _joined(dx), of_weight, of_bias, None, None, None, None, None


def _joined(views: list[Tensor]) -> Tensor:
    """The views in order, without a copy of a single one."""
    return views[0] if len(views) == 1 else torch.cat(views)


def _dense(x: Tensor) -> Tensor:
    """In a layout that the kernels read fast."""
    return x if x.is_contiguous(memory_format=torch.channels_last) else x.contiguous()


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
