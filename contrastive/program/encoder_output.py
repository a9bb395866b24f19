"""Check what an encoder returns, before data is loaded where the size of the images is known."""

from typing import Any

import torch
from torch import Tensor, nn

from contrastive.errors import ConfigError

USUAL_SIZE = 32
MAX_SIZE = 4096


def image_size(dataset: dict[str, Any]) -> int | None:
    """The `size` of a dataset of this package, the side of its images in pixels; None if unknown."""
    size = dataset.get("size")
    known = dataset["_target_"].startswith("contrastive.dataset.") and isinstance(size, int) and size > 0
    return size if known else None


def feature(encoder: nn.Module) -> str:
    """Which of the network's values are the features, in words."""
    return str(getattr(encoder, "feature", f"output of {type(encoder).__name__}"))


def check_encoder_output(encoder: nn.Module, size: int | None) -> None:
    """Pass two black images through the encoder in eval mode; its mode and state stay as they were.

    Args:
        size: side of the images in pixels; None = not known before the data is loaded. Then images of 32 pixels are
            tried, and an encoder that fails on them because of their size is accepted.

    Raises:
        ConfigError: the encoder has no int attribute `dim`, or does not map (2, 3, H, W) to (2, dim); `size` is above
            4096.
    """
    if size is not None and size > MAX_SIZE:
        raise ConfigError(f"dataset.size must be at most {MAX_SIZE}, got {size}: try dataset.size={USUAL_SIZE}")
    name, dim = type(encoder).__name__, getattr(encoder, "dim", None)
    if not isinstance(dim, int):
        raise ConfigError(
            f"the encoder {name} needs an int attribute dim, the number of its features: "
            "set self.dim in its constructor, or try encoder=resnet18"
        )
    image = torch.zeros(2, 3, size or USUAL_SIZE, size or USUAL_SIZE)
    modes = [(module, module.training) for module in encoder.modules()]
    try:
        with torch.no_grad():
            h = encoder.eval()(image)
    except (RuntimeError, ValueError, AssertionError, TypeError) as error:
        if size is None:
            return
        raise ConfigError(
            f"the encoder {name} fails on images of shape {tuple(image.shape)} "
            f"({' '.join(str(error).split())}): try encoder.image_size={image.shape[-1]} if it has that option, "
            "another dataset.size, or encoder=resnet18"
        ) from error
    finally:
        for module, training in modes:
            module.training = training
    shape = tuple(h.shape) if isinstance(h, Tensor) else type(h).__name__
    if shape != (2, dim):
        raise ConfigError(
            f"the encoder {name} returns {shape} for 2 images instead of (N, dim) = {(2, dim)}: "
            "flatten its output and set self.dim to its last dimension, or try encoder=resnet18"
        )
