"""An encoder as a program of torch.export, which torch alone loads."""

from pathlib import Path

import torch

from contrastive.errors import ConfigError
from contrastive.export.pixels import SHAPES, load_from_pixels, reason
from contrastive.files import atomic
from contrastive.run.files import weights_path


def export_pt2(path: str | Path) -> Path:
    """Write encoder.pt2 beside the encoder's file, and return its path.

        encoder = torch.export.load("encoder.pt2").module()
        features = encoder(image)  # float32 (N, K, H, W) in [0, 1] of the encoder's size → (N, F)

    Args:
        path: a run directory, or its encoder.safetensors alone.

    Raises:
        ConfigError: the network cannot be traced, or `load_encoder` refuses the file.
    """
    file = weights_path(path)
    network, example = load_from_pixels(file)
    try:
        program = torch.export.export(network, (example,), dynamic_shapes=SHAPES)
    except RuntimeError as error:
        raise ConfigError(
            f"torch.export cannot trace this network ({reason(error)}): "
            "try encoder.safetensors with contrastive.load_encoder"
        ) from error
    target = file.with_suffix(".pt2")
    with atomic(target) as part, part.open("wb") as out:
        torch.export.save(program, out)
    return target
