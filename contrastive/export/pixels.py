"""An encoder whose input are images in [0, 1], for formats that carry their normalization inside."""

from pathlib import Path

import torch
from torch import Tensor, nn

from contrastive.experiment.encoder import load_encoder

SHAPES = {"image": {0: torch.export.Dim("N")}}  # what of an exported graph is free


class FromPixels(nn.Module):
    """Images in [0, 1] of the encoder's size → features."""

    mean: Tensor
    std: Tensor

    def __init__(self, encoder: nn.Module, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.encoder = encoder
        self.register_buffer("mean", torch.tensor(mean)[:, None, None])
        self.register_buffer("std", torch.tensor(std)[:, None, None].clamp(min=1e-6))

    def forward(self, image: Tensor) -> Tensor:
        features: Tensor = self.encoder((image - self.mean) / self.std)
        return features


def load_from_pixels(file: Path) -> tuple[FromPixels, Tensor]:
    """The network of an encoder's file, in eval mode, and two images to trace it with.

    Raises:
        ConfigError: `load_encoder` refuses the file.
    """
    encoder, transform = load_encoder(file)
    example = torch.rand(2, len(transform.mean), *transform.size)
    return FromPixels(encoder, transform.mean, transform.std).eval(), example


def reason(error: Exception) -> str:
    """Why a network could not be traced, in one line."""
    return " ".join(str(error.__cause__ or error).split())[:200]
