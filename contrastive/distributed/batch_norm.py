"""Batch normalization over the samples of all processes, and of each view apart."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
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
    many samples, so that nothing depends on counts that only the device knows. nn.SyncBatchNorm waits for them three
    times a layer, and knows no CPU. The running statistics take the views in their order.

    Layers below it are called on its output: timm's BatchNormAct2d has its dropout and its activation there.

    Shapes: (V · B, C, ...) → (V · B, C, ...), the views in order.
    """

    n_views = 1  # set by `views_apart`

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or world_size() == self.n_views == 1:
            return super().forward(x)
        if world_size() == 1:
            return torch.cat([super(StepBatchNorm, self).forward(view) for view in x.chunk(self.n_views)])
        x = self._shared(x)
        for layer in self.children():
            x = layer(x)
        return x

    def _shared(self, x: Tensor) -> Tensor:
        """Normalized by the mean and the variance of each view in all processes."""
        views = widen(x).unflatten(0, (self.n_views, -1))  # (V, B, C, ...)
        axes, like_channels = [1, *range(3, views.dim())], (-1, *[1] * (x.dim() - 2))
        # Centered by the mean of its own first: in float32 values and mean are large, and cancel. var_mean adds one
        # value after the other: two processes would part from one within ten steps.
        mean = views.mean(axes, keepdim=True)
        centered = views - mean
        local = torch.stack([mean, centered.square().mean(axes, keepdim=True)])
        means, variances = gather(local[None]).unbind(1)  # (world, V, 1, C, ...)
        # Equal shares: the variance of all is the mean of the variances and the variance of the means.
        mean_of_all, variance = means.mean(0), variances.mean(0) + means.var(0, correction=0)
        self._update_running_stats(mean_of_all, variance, world_size() * x.numel() / mean.numel())
        scale = (variance + self.eps).rsqrt()
        if self.weight is not None:
            scale = scale * self.weight.view(like_channels)
        out = centered * scale + (mean - mean_of_all) * scale
        if self.bias is not None:
            out = out + self.bias.view(like_channels)
        return cast(Tensor, out.flatten(0, 1).to(x.dtype))

    @torch.no_grad()
    def _update_running_stats(self, mean: Tensor, variance: Tensor, n: float) -> None:
        """Of each view in turn, by (V, 1, C, ...) means and variances of n values."""
        if not self.track_running_stats:
            return
        assert self.running_mean is not None and self.running_var is not None
        assert self.num_batches_tracked is not None and self.momentum is not None
        self.num_batches_tracked.add_(self.n_views)
        # n / (n - 1): torch normalizes by the biased variance and remembers the unbiased one
        for running, statistic in ((self.running_mean, mean), (self.running_var, variance * n / (n - 1))):
            for view in statistic.to(running.dtype):
                running.lerp_(view.flatten(), self.momentum)


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
