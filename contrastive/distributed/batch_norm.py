"""Batch normalization over the samples of all processes."""

import torch
from torch import Tensor, nn

from contrastive.distributed.process import all_reduce_sum, shard

BatchNorm = nn.modules.batchnorm._BatchNorm


class CrossProcessBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch normalization whose mean and variance are those of all processes' samples, on any device.

    torch's SyncBatchNorm, faster, refuses tensors on the CPU. Every process holds equally many samples.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2 dimensions, got {input.dim()}")

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        wide = x if x.dtype == torch.float64 else x.float()
        axes = [0, *range(2, x.dim())]
        shape = [1, -1] + [1] * (x.dim() - 2)
        n = shard().world_size * x.numel() / x.shape[1]
        mean = all_reduce_sum(wide.sum(axes)) / n
        centered = wide - mean.view(shape)
        variance = all_reduce_sum(centered.square().sum(axes)) / n
        if self.track_running_stats:
            assert self.running_mean is not None and self.running_var is not None and self.momentum is not None
            with torch.no_grad():
                if self.num_batches_tracked is not None:
                    self.num_batches_tracked.add_(1)
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
                self.running_var.lerp_((variance * n / (n - 1)).to(self.running_var.dtype), self.momentum)
        out = centered * (variance + self.eps).rsqrt().view(shape)
        return (out * self.weight.view(shape) + self.bias.view(shape) if self.affine else out).to(x.dtype)


def convert_sync_batchnorm(module: nn.Module, device: torch.device) -> nn.Module:
    """The module with every BatchNorm normalizing over the samples of all processes; same parameters and names."""
    if shard().world_size == 1:
        return module
    if device.type == "cuda":
        return nn.SyncBatchNorm.convert_sync_batchnorm(module)
    for name, child in module.named_children():
        if isinstance(child, nn.modules.batchnorm._BatchNorm):
            across = CrossProcessBatchNorm(
                child.num_features, child.eps, child.momentum, child.affine, child.track_running_stats
            )
            across.weight, across.bias = child.weight, child.bias
            across.running_mean, across.running_var = child.running_mean, child.running_var
            across.num_batches_tracked = child.num_batches_tracked
            setattr(module, name, across)
        else:
            convert_sync_batchnorm(child, device)
    return module
