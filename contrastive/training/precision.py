"""Precision of the encoder's arithmetic. Losses and metrics are float32 in any case."""

import functools
from collections.abc import Callable

import torch
from torch import Tensor, nn

from contrastive.errors import ConfigError


def choose(precision: str, device: torch.device) -> str:
    """Resolve `auto`: bf16 if the device has instructions for it, else fp32."""
    if precision == "fp16" and device.type != "cuda":
        raise ConfigError("fp16 needs a GPU: try precision=auto")
    if precision != "auto":
        return precision
    if device.type == "cuda":
        is_fast = torch.cuda.get_device_capability(device) >= (8, 0)
    else:
        is_fast = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return "bf16" if is_fast else "fp32"


def autocast(precision: str, device: torch.device) -> Callable[[], torch.autocast]:
    """A context manager for the resolved precision: `with autocast(precision, device)(): ...`."""
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    return functools.partial(torch.autocast, device.type, dtype=dtype, enabled=precision != "fp32")


class SafeConv2d(nn.Conv2d):
    """A convolution that takes a map of one pixel in float32.

    The bf16 backward pass of torch 2.15 on CPUs reads memory that was never written where a 3 × 3 convolution of stride
    2 meets a 1 × 1 map: gradients are NaN or arbitrarily large, as chance has it.
    """

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-2:] != (1, 1):
            return super().forward(x)
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(x.float())


def make_convolutions_safe(module: nn.Module) -> None:
    """Make every Conv2d below `module` a `SafeConv2d`, with its very parameters and names."""
    for layer in module.modules():
        if type(layer) is nn.Conv2d:
            layer.__class__ = SafeConv2d


class Normalize:
    """uint8, or float in [0, 1], images (N, 3, h, w) → float32, standardized per channel.

    Args:
        mean, std: per channel, of images scaled to [0, 1]; a deviation below 1e-6 counts as 1e-6.
        channels_last: the memory format of the result.
    """

    def __init__(
        self,
        mean: tuple[float, float, float],
        std: tuple[float, float, float],
        *,
        device: torch.device | str = "cpu",
        channels_last: bool = False,
    ) -> None:
        self.mean = torch.tensor(mean, device=device)[:, None, None]
        self.std = torch.tensor(std, device=device)[:, None, None].clamp(min=1e-6)
        self.format = torch.channels_last if channels_last else torch.contiguous_format

    def __call__(self, x: Tensor) -> Tensor:
        x = x / 255 if x.dtype == torch.uint8 else x
        return ((x - self.mean) / self.std).contiguous(memory_format=self.format)
