"""Precision of the encoder's arithmetic. Losses and metrics have float32 tensors in any case."""

import functools
from collections.abc import Callable

import torch
from torch import Tensor, nn

from contrastive.errors import ConfigError
from contrastive.types import as_float

AMPERE = (8, 0)  # the compute capability from which on GPUs have bf16 and TF32


def choose(precision: str, device: torch.device) -> str:
    """The precision that a device computes in: `auto` is bf16 if it has instructions for it, else fp32.

    `tf32` is torch's own default, which on a device without TF32 is fp32. On Apple's GPU all is fp32.

    Raises:
        ConfigError: fp16 without a GPU of NVIDIA.
    """
    if precision == "fp16" and device.type != "cuda":
        raise ConfigError("fp16 needs a GPU of NVIDIA: try precision=auto")
    if device.type == "mps":
        return "fp32"
    is_ampere = device.type == "cuda" and torch.cuda.get_device_capability(device) >= AMPERE
    if precision == "tf32":
        return "tf32" if is_ampere else "fp32"
    if precision != "auto":
        return precision
    is_fast_cpu = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return "bf16" if is_ampere or (device.type == "cpu" and is_fast_cpu) else "fp32"


def set_tf32(precision: str) -> None:
    """Let GPUs compute float32 convolutions in TF32 (10 bits of mantissa), or not; matrix products stay float32.

    With TF32 these are torch's own defaults: the similarities of losses and of kNN, and the probes, are as exact as
    without. It is set for the whole process, evaluation included.
    """
    # Not by `fp32_precision`: torch itself still reads these switches, and raises where only that one was set.
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = False


def autocast(precision: str, device: torch.device) -> Callable[[], torch.autocast]:
    """A context manager for the resolved precision: `with autocast(precision, device)(): ...`."""
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    return functools.partial(torch.autocast, device.type, dtype=dtype, enabled=dtype is not None)


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


NARROW = 8  # channels


def bears_channels_last(network: nn.Module, device: torch.device) -> bool:
    """Whether the network can be trained in that memory format.

    On CPUs without AVX-512 the backward pass of torch 2.15 writes past its memory there, in a 1 × 1 convolution with a
    stride that reads few channels. The answer is the same for every CPU, so that results do not depend on its kind.
    """
    layers = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d) and layer.in_channels < NARROW]
    strided = any(layer.kernel_size == (1, 1) and layer.stride != (1, 1) for layer in layers)
    return device.type != "cpu" or not strided


def placed(network: nn.Module, device: torch.device, *, channels_last: bool) -> tuple[nn.Module, bool]:
    """The network on the device, and whether it is in that memory format: if that is wanted and it bears it."""
    bears = channels_last and bears_channels_last(network, device)
    layout = torch.channels_last if bears else torch.contiguous_format
    return network.to(device, memory_format=layout), bears  # type: ignore[call-overload]


class Normalize:
    """uint8, uint16, or float in [0, 1], images (N, K, h, w) → float32, standardized per channel.

    Args:
        mean: per channel, of images scaled to [0, 1]; a deviation below 1e-6 counts as 1e-6.
        std: per channel, of images scaled to [0, 1]; a deviation below 1e-6 counts as 1e-6.
        channels_last: the memory format of the result.
    """

    def __init__(
        self,
        mean: tuple[float, ...],
        std: tuple[float, ...],
        *,
        device: torch.device | str = "cpu",
        channels_last: bool = False,
    ) -> None:
        self.mean = torch.tensor(mean, device=device)[:, None, None]
        self.std = torch.tensor(std, device=device)[:, None, None].clamp(min=1e-6)
        self.format = torch.channels_last if channels_last else torch.contiguous_format

    def __call__(self, x: Tensor) -> Tensor:
        return ((as_float(x) - self.mean) / self.std).contiguous(memory_format=self.format)
