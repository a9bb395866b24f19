"""Read the tensors of a weights file without running anything that the file holds."""

import os
import re
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.weights.content import file_hash
from contrastive.weights.metadata import ENCODER, FORMAT, checksum


class _Inert(dict[Any, Any]):
    """Stands for every object in a checkpoint that is neither a tensor nor a plain container; does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def __setstate__(self, _: Any) -> None:
        """Ignore the object's state."""


def weights_path(path: str | Path) -> Path:
    """The file that `path` names: itself, or the encoder of a run directory.

    Raises:
        ConfigError: there is no such file.
    """
    file = Path(path).expanduser()
    if file.is_dir():
        file = file / ENCODER
    if not file.is_file():
        raise ConfigError(f"there is no weights file {file}: try encoder.weights=PATH with a file or a finished run")
    if not os.access(file, os.R_OK):
        raise ConfigError(f"{file} may not be read by you: try chmod u+r on it, or encoder.weights=PATH of a copy")
    return file


def weights_hash(path: str | None) -> dict[str, str]:
    """sha256 of the file that a run starts from, as its environment records it; nothing where there is none."""
    if path is None:
        return {}
    return {"weights": file_hash(weights_path(path))}


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Every tensor of a .safetensors file or of a file by torch.save, by its dotted place: {"state_dict.fc.bias": ...}.

    Files by torch.save are read with `weights_only=True`. Objects in them that are no tensors, such as the
    hyperparameters in a checkpoint of Lightning, are replaced by empty ones: their classes are neither imported nor
    called.

    Raises:
        ConfigError: the file cannot be read in this way.
    """
    content = _read_safetensors(path) if path.suffix == ".safetensors" else _read_pickle(path)
    tensors = dict(_flatten(content))
    if not tensors:
        raise ConfigError(f"{path} holds no tensors: try a file with a state_dict")
    return tensors


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        tensors = load_file(path)
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise ConfigError(f"{path} is no whole .safetensors file ({error}): try to copy it again") from error
    is_ours = metadata.get("contrastive_format") == FORMAT
    if is_ours and metadata.get("sha256") != checksum(tensors, metadata):
        raise ConfigError(f"{path} has other content than was written: try to copy it again")
    return tensors


def _read_pickle(path: Path) -> Any:
    try:
        with warnings.catch_warnings(action="ignore"):
            names = _foreign_classes(path)
            with torch.serialization.safe_globals([(_Inert, name) for name in names]):
                return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever torch's unpickler raises at bytes that are no pickle
        detail = re.search(r"Trying to [^\n]+|Unsupported [^\n]+", str(error))
        reason = detail[0] if detail else " ".join(str(error).split())[:120]
        raise ConfigError(
            f"{path} cannot be read without running code that it may hold ({reason}): if you trust the file, save its "
            "tensors alone, try python -c \"import torch; file = torch.load('FILE', weights_only=False); "
            "torch.save(file.get('state_dict', file), 'weights.pth')\" and encoder.weights=weights.pth"
        ) from error


def _foreign_classes(path: Path) -> list[str]:
    """The classes and functions that the file names and that torch does not load by itself."""
    try:
        return torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except (ValueError, RuntimeError):  # a file in the format before torch 1.6, or no such file at all
        return []


def _flatten(content: Any, prefix: str = "") -> list[tuple[str, Tensor]]:
    if isinstance(content, Tensor):
        return [(prefix[:-1], content)]
    if isinstance(content, dict) and not isinstance(content, _Inert):
        return [item for key, value in content.items() for item in _flatten(value, f"{prefix}{key}.")]
    return []
