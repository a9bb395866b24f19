"""The weights of a run: encoder.safetensors and head.safetensors, with what is needed to use them in their metadata."""

import hashlib
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
from contrastive.run.files import ENCODER, HEAD, NOT_ARGUMENTS, read_config, read_environment, read_result
from contrastive.types import Data

FORMAT = "2"  # of the metadata: raise it when a key changes its meaning
FROM_ENVIRONMENT = ("command", "commit", "code", "data")
AGAIN = "try the command of its run again, which writes it from the checkpoint"


def save_run_weights(path: Path, *, result: Mapping[str, Any], data: Data, encoder: nn.Module, head: nn.Module) -> None:
    """Write both files of the run in `path`, whose config.yaml and environment.json are there already."""
    config = read_config(path)
    run = describe_run(config, read_environment(path), data, result)
    save_weights(path / HEAD, head, node=config["head"], run=run | {"in_dim": encoder.dim})
    node = {key: value for key, value in config["encoder"].items() if key not in NOT_ARGUMENTS}
    save_weights(path / ENCODER, encoder, node=node, run=run)


def describe_run(
    config: Mapping[str, Any], environment: Mapping[str, Any], data: Data, result: Mapping[str, Any]
) -> dict[str, Any]:
    """What the metadata says about a run, besides the networks.

    Args:
        config, environment, result: the contents of config.yaml, environment.json and result.json.
    """
    return {
        "image_size": list(data.pretrain.image.shape[-2:]),
        "mean": list(data.mean),
        "std": list(data.std),
        "classes": list(data.classes),
        "dataset": config["dataset"]["_target_"],
        "loss": config["loss"]["_target_"],
        "encoder": result["encoder"],
        "metrics": result["test"],
        "protocol": result["protocol"],
        **{key: environment[key] for key in FROM_ENVIRONMENT if environment[key] is not None},
    }


def save_weights(path: Path, module: nn.Module, *, node: Mapping[str, Any], run: Mapping[str, Any]) -> None:
    """Write the state of a network as torchvision names it, with metadata.

    Args:
        path: of the .safetensors file. node: how to build the network, a `_target_` and its arguments.
        run: as `describe_run` returns it.
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
    try:
        tensors, raw = _read(path)
    except (SafetensorError, OSError) as error:
        raise ConfigError(f"{path} is no whole .safetensors file ({error}): try the run directory of it") from error
    if raw.get("contrastive_format") != FORMAT:
        raise ConfigError(
            f"{path} does not say which encoder it belongs to (metadata {FORMAT} expected, "
            f"{raw.get('contrastive_format', 'none')} found): try python train.py encoder.weights={path} epochs=0"
        )
    if raw.get("sha256") != checksum(tensors, raw):
        raise ConfigError(f"{path} is damaged: {AGAIN}")
    if (recorded := _recorded_hash(path)) is not None and content_hash(tensors) != recorded:
        raise ConfigError(f"{path} is damaged or another run's: {AGAIN}")
    texts = ("format", "contrastive_format", "sha256", "dataset", "loss", *FROM_ENVIRONMENT)
    return SavedWeights(tensors, {key: value if key in texts else json.loads(value) for key, value in raw.items()})


def check_weights_hash(path: Path) -> None:
    """Raise ConfigError if the file lies in a finished run and is not the one that the run wrote."""
    if _recorded_hash(path) is not None:
        read_weights(path)


def weights_hashes(run: Path) -> dict[str, str]:
    """{file: sha256 of its tensors} of the whole files of weights in a run directory."""
    hashes = {}
    for name in (ENCODER, HEAD):
        try:
            tensors, metadata = _read(run / name)
        except (SafetensorError, OSError):
            continue
        if metadata.get("sha256") == checksum(tensors, metadata):
            hashes[name] = content_hash(tensors)
    return hashes


def has_own_weights(run: Path, result: dict[str, Any]) -> bool:
    """Whether both files of weights are there, whole, and those that the result names."""
    hashes = weights_hashes(run)
    return hashes.keys() == {ENCODER, HEAD} and hashes == result.get("weights", hashes)


def checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """sha256 of the tensors and of the metadata, that of an earlier checksum left out."""
    return content_hash([dict(tensors), {key: value for key, value in metadata.items() if key != "sha256"}])


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    with safe_open(path, framework="pt") as file:
        return {key: file.get_tensor(key) for key in file.keys()}, file.metadata() or {}  # noqa: SIM118  (no dict)


def _recorded_hash(path: Path) -> str | None:
    """sha256 of the file's tensors in the result of the run that it lies in."""
    hashes: dict[str, str] = (read_result(path.parent) or {}).get("weights", {})
    return hashes.get(path.name)


def content_hash(node: Any) -> str:
    """sha256 of nested dicts, lists, tensors and plain values; equal for a checkpoint before and after the disk."""
    digest = hashlib.sha256()
    _feed(digest, node)
    return digest.hexdigest()


def _feed(digest: Any, node: Any) -> None:
    if isinstance(node, Tensor):
        digest.update(f"{node.dtype}{tuple(node.shape)}".encode())
        digest.update(node.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    elif isinstance(node, dict):
        digest.update(f"dict{len(node)}".encode())
        for key, value in sorted(node.items(), key=lambda item: repr(item[0])):  # a file may order them otherwise
            digest.update(repr(key).encode())
            _feed(digest, value)
    elif isinstance(node, list | tuple):
        digest.update(f"list{len(node)}".encode())
        for value in node:
            _feed(digest, value)
    else:
        digest.update(repr(node).encode())
