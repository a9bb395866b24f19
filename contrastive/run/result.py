"""result.json and encoder.safetensors of a finished run. Each is read only if it is whole."""

import json
import math
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from contrastive.atomic import atomic, write_text
from contrastive.run.checkpoint import content_hash


def result_file(run: Path) -> Path:
    """The path of result.json, whose existence means that the run is done."""
    return run / "result.json"


def encoder_file(run: Path) -> Path:
    """The path of encoder.safetensors."""
    return run / "encoder.safetensors"


def write_result(run: Path, result: dict[str, Any]) -> None:
    """Write result.json.

    Raises:
        ValueError: a figure is not finite.
    """
    write_text(result_file(run), json.dumps(result, indent=1, allow_nan=False))


def read_result(run: Path) -> dict[str, Any] | None:
    """The content of result.json; None if it is missing, cut, or holds anything but finite figures."""
    try:
        result = json.loads(result_file(run).read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(result, dict) or result.get("status") != "done" or not isinstance(result.get("test"), dict):
        return None
    return result if all(map(_is_figure, result["test"].values())) else None


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


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
