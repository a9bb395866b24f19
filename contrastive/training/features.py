"""What a frozen encoder makes of images."""

import hashlib
from collections.abc import Callable

import torch
from torch import Tensor, nn

from contrastive.types import Features, Split

CHUNK = 500  # images per forward pass: enough to fill a device, little enough to fit beside a training run


@torch.no_grad()
def extract(
    encoder: nn.Module, split: Split, normalize: Callable[[Tensor], Tensor], autocast: Callable[[], torch.autocast]
) -> Features:
    """Encode every image, un-augmented, in eval mode and without gradient.

    Args:
        normalize: uint8 (N, 3, H, W) → what the encoder was trained on.
        autocast: opens the precision to compute in.

    Returns:
        Features with h (N, F) float32 on the encoder's device. The encoder's mode is put back.
    """
    device = next(encoder.parameters()).device
    was_training = encoder.training
    encoder.eval()
    parts = []
    for start in range(0, len(split), CHUNK):
        with autocast():
            parts.append(encoder(normalize(split.image[start : start + CHUNK].to(device))).float())
    encoder.train(was_training)
    return Features(torch.cat(parts), split.label.to(device), None if split.bias is None else split.bias.to(device))


def state_hash(module: nn.Module) -> str:
    """sha256 over every parameter and buffer: equal before and after means frozen."""
    digest = hashlib.sha256()
    for name, value in module.state_dict().items():
        digest.update(name.encode())
        digest.update(value.detach().cpu().numpy().tobytes())
    return digest.hexdigest()
