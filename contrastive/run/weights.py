"""The weights of a run: encoder.safetensors and head.safetensors, with what is needed to use them in their metadata."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from contrastive.errors import ConfigError
from contrastive.files import atomic
from contrastive.run.checkpoint import content_hash
from contrastive.run.files import ENCODER, HEAD, RGB, encoder_node, read_config, read_environment, read_result
from contrastive.types import Data

FROM_ENVIRONMENT = ("command", "commit", "code", "data", "torch", "device")
FORMAT = "2"  # of the metadata of a file of weights: raise it when a key changes its meaning
AGAIN = (
    "try copying it again, or remove result.json beside it and type the command of its run, which writes it from the "
    "checkpoint"
)


def save_run_weights(
    path: Path, *, result: Mapping[str, Any], data: Data, encoder: nn.Module, head: nn.Module
) -> dict[str, str]:
    """Write both files of the run in `path`, whose config.yaml and environment.json are there already.

    Returns:
        {file: sha256 of its tensors}
    """
    config, environment = read_config(path), read_environment(path)
    run = {
        "image_size": list(data.pretrain.image.shape[-2:]),
        "mean": list(data.mean),
        "std": list(data.std),
        **({"dtype": "uint16"} if data.test.image.dtype == torch.uint16 else {}),
        **({} if config["dataset"].get("orientation", True) else {"orientation": False}),
        "classes": list(data.classes),
        "dataset": config["dataset"]["_target_"],
        "loss": config["loss"]["_target_"],
        "encoder": result["encoder"],
        "metrics": result["test"],
        "protocol": result["protocol"],
        **{key: environment[key] for key in FROM_ENVIRONMENT if environment.get(key) is not None},
    }
    save_weights(path / HEAD, head, node=config["head"], run=run | {"in_dim": encoder.dim})
    node = encoder_node(config["encoder"], None, data.n_channels)
    save_weights(path / ENCODER, encoder, node=node, run=run)
    return {name: content_hash(dict(net.state_dict())) for name, net in ((ENCODER, encoder), (HEAD, head))}


def save_weights(path: Path, module: nn.Module, *, node: Mapping[str, Any], run: Mapping[str, Any]) -> None:
    """Write the state of a network as torchvision names it, with metadata.

    Args:
        path: of the .safetensors file.
        node: how to build the network, a `_target_` and its arguments.
        run: what the metadata says about the run besides, {name: text or plain containers}.
    """
    tensors = {key: value.detach().cpu().contiguous().clone() for key, value in module.state_dict().items()}
    metadata = {"format": "pt", "contrastive_format": FORMAT, "node": json.dumps(dict(node))}
    metadata |= {key: value if isinstance(value, str) else json.dumps(value) for key, value in run.items()}
    with atomic(path) as part:
        save_file(tensors, part, metadata=metadata | {"sha256": checksum(tensors, metadata)})


class SavedWeights(NamedTuple):
    """A whole file by `save_weights`: its tensors, and its metadata as plain containers."""

    tensors: dict[str, Tensor]
    metadata: dict[str, Any]


def read_weights(path: Path) -> SavedWeights:
    """Read a file by `save_weights` and check that it is whole and, in a finished run, the one that the run wrote.

    Raises:
        ConfigError: it is damaged, another run's, has no such metadata, or was written by another version.
    """
    tensors, raw = read_safetensors(path)
    if raw.get("contrastive_format") != FORMAT:
        raise ConfigError(
            f"{path} does not say which encoder it belongs to (metadata {FORMAT} expected, "
            f"{raw.get('contrastive_format', 'none')} found): try python train.py encoder.weights={path} epochs=0"
        )
    texts = ("format", "contrastive_format", "dtype", "sha256", "dataset", "loss", *FROM_ENVIRONMENT)
    return SavedWeights(tensors, {key: value if key in texts else json.loads(value) for key, value in raw.items()})


def channels_of(path: Path) -> int:
    """The channels of the images that the encoder in a file takes, as its metadata say; 3 for a file without such."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
        return len(json.loads(metadata["mean"])) if metadata.get("contrastive_format") == FORMAT else RGB
    except (SafetensorError, OSError, ValueError, KeyError, TypeError):  # `load_into` says what is wrong with it
        return RGB


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a .safetensors file of any project; one by `save_weights` is checked.

    Raises:
        ConfigError: it is damaged, or lies in a finished run that wrote another one.
    """
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  (no dict)
            metadata = file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise ConfigError(f"{path} is not a complete .safetensors file ({error}): {AGAIN}") from error
    if metadata.get("contrastive_format") == FORMAT and metadata.get("sha256") != checksum(tensors, metadata):
        raise ConfigError(f"{path} is damaged: {AGAIN}")
    recorded = (read_result(path.parent) or {}).get("weights", {}).get(path.name)
    if recorded is not None and content_hash(tensors) != recorded:
        raise ConfigError(f"{path} is damaged or another run's: {AGAIN}")
    return tensors, metadata


def checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """sha256 of the tensors and of the metadata, that of an earlier checksum left out."""
    return content_hash([dict(tensors), {key: value for key, value in metadata.items() if key != "sha256"}])
