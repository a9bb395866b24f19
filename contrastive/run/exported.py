"""encoder.safetensors, the weights that a finished run exports, with a hash of them."""

from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from contrastive.atomic import atomic
from contrastive.run.checkpoint import content_hash


def encoder_file(run: Path) -> Path:
    """The path of encoder.safetensors."""
    return run / "encoder.safetensors"


def write_encoder(run: Path, weights: dict[str, Tensor]) -> None:
    """Write encoder.safetensors; its metadata holds a hash of the weights."""
    weights = {key: value.detach().cpu().contiguous() for key, value in weights.items()}
    with atomic(encoder_file(run)) as part:
        save_file(weights, part, metadata={"sha256": content_hash(weights)})


def read_encoder(run: Path) -> dict[str, Tensor] | None:
    """The weights in encoder.safetensors; None if it is missing or damaged."""
    try:
        with safe_open(encoder_file(run), framework="pt") as file:
            weights = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  (the file is no dict)
            recorded = (file.metadata() or {}).get("sha256")
    except Exception:  # safetensors has its own exceptions for a damaged header
        return None
    return weights if recorded in (None, content_hash(weights)) else None
