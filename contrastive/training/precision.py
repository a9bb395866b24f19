"""Precision of the encoder's arithmetic. Losses and metrics are float32 in any case."""

import functools
from collections.abc import Callable

import torch
from torch import Tensor

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
