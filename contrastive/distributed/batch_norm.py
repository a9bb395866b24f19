"""Batch normalization over the samples of all processes."""

from typing import TypeVar

import torch
from torch import Tensor, nn

from contrastive.distributed.process import all_reduce_sum, world_size
from contrastive.types import widen

BatchNorm = nn.modules.batchnorm._BatchNorm  # the common base of BatchNorm1d, 2d, 3d and SyncBatchNorm
M = TypeVar("M", bound=nn.Module)


class CrossProcessBatchNorm(BatchNorm):
    """Batch normalization with the mean and variance of all processes' samples, on any device.

    torch's SyncBatchNorm is faster but refuses CPU tensors. Every process must hold equally many samples.

    Shapes: (N, C, ...) → (N, C, ...).
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2 dimensions, got {input.dim()}")

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        wide = widen(x)
        axes = [0, *range(2, x.dim())]
        shape = [1, -1] + [1] * (x.dim() - 2)
        n = world_size() * x.numel() / x.shape[1]
        mean = all_reduce_sum(wide.sum(axes)) / n
        centered = wide - mean.view(shape)
        variance = all_reduce_sum(centered.square().sum(axes)) / n
        self._update_running_stats(mean.detach(), variance.detach() * n / (n - 1))
        out = centered * (variance + self.eps).rsqrt().view(shape)
        return (out * self.weight.view(shape) + self.bias.view(shape) if self.affine else out).to(x.dtype)

    def _update_running_stats(self, mean: Tensor, unbiased_variance: Tensor) -> None:
        if self.running_mean is None or self.running_var is None:
            return
        assert self.momentum is not None
        with torch.no_grad():
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
            self.running_var.lerp_(unbiased_variance.to(self.running_var.dtype), self.momentum)


def convert_sync_batchnorm(module: M, device: torch.device) -> M:
    """Let every BatchNorm below `module` normalize over the samples of all processes; same parameters and names."""
    if world_size() == 1:
        return module
    if device.type == "cuda":
        return nn.SyncBatchNorm.convert_sync_batchnorm(module)  # type: ignore[no-any-return]
    for name, child in module.named_children():
        if isinstance(child, BatchNorm):
            setattr(module, name, _convert(child))
        else:
            convert_sync_batchnorm(child, device)
    return module


def _convert(norm: BatchNorm) -> CrossProcessBatchNorm:
    converted = CrossProcessBatchNorm(norm.num_features)
    converted.__dict__.update(norm.__dict__)  # its very parameters and buffers
    return converted
