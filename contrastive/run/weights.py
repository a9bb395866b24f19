"""The weights of a run, encoder.safetensors and head.safetensors, whose metadata say how to use them; and weights of
other projects, read as data.
"""

import json
import re
import warnings
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

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
CLASSIFIERS = {"fc", "classifier", "head", "heads", "linear", "prototypes"}  # first parts of names after the features
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


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a file by `save_weights`, and its metadata as plain containers.

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
    return tensors, {key: value if key in texts else json.loads(value) for key, value in raw.items()}


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
        raise ConfigError(f"{path} is damaged ({error}): {AGAIN}") from error
    is_whole = metadata.get("contrastive_format") != FORMAT or metadata.get("sha256") == checksum(tensors, metadata)
    recorded = (read_result(path.parent) or {}).get("weights", {}).get(path.name)
    if not is_whole or recorded not in (None, content_hash(tensors)):
        raise ConfigError(f"{path} is damaged or another run's: {AGAIN}")
    return tensors, metadata


def checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """sha256 of the tensors and of the metadata, that of an earlier checksum left out."""
    return content_hash([dict(tensors), {key: value for key, value in metadata.items() if key != "sha256"}])


def load_into(encoder: nn.Module, path: Path, prefix: str | None = None) -> str:
    """Replace every weight of the encoder by that of the file.

    Args:
        path: a file that `read_tensors` reads.
        prefix: see `find_place`.

    Returns:
        one line: where in the file the encoder is, and how many tensors of the file were left out.

    Raises:
        ConfigError: a weight is missing, left over or of another shape, or is not finite.
    """
    own, tensors = encoder.state_dict(), read_tensors(path)
    place = find_place(tensors, own, prefix)
    theirs = {key.removeprefix(place): value for key, value in tensors.items() if key.startswith(place)}
    if not all(value.isfinite().all() for value in theirs.values()):
        raise ConfigError(f"{path} holds weights that are not finite: try an earlier file of that training")
    counts = {key: value for key, value in own.items() if key.endswith("num_batches_tracked")}  # old files lack them
    kept = {key: value for key, value in theirs.items() if key in own or key.split(".")[0] not in CLASSIFIERS}
    try:
        encoder.load_state_dict(counts | kept)
    except RuntimeError as error:
        raise ConfigError(
            f"{path} does not fit this encoder ({' '.join(str(error).split())[:300]}): "
            "try encoder=NAME, encoder.width and encoder.stem of the network that the file holds"
        ) from error
    line = f"encoder weights of {path}: {len(kept)} tensors{place and f' below {place[:-1]}'}"
    others = [key.removeprefix(place) for key in tensors if key.removeprefix(place) not in own]
    if tops := Counter(".".join(key.split(".")[:2]) for key in others):
        line += "; left out: " + ", ".join(f"{top} ({n})" for top, n in tops.items())
    if place.endswith("backbone.") and getattr(encoder, "stem", None) == "small":
        line += "\nif solo-learn trained them on CIFAR, its 3 × 3 stem pads by 2: try encoder.stem=solo_learn"
    return line


def find_place(tensors: Collection[str], names: Collection[str], prefix: str | None = None) -> str:
    """What stands before the encoder's names in a file: `state_dict.module.encoder_q.`

    Args:
        tensors: the names in the file.
        names: of the encoder's parameters and buffers.
        prefix: the last parts of the place, where several networks in the file fit; None = the one that fits best.

    Raises:
        ConfigError: no tensor of the file belongs to the encoder, or several networks fit equally well.
    """
    fitting = Counter(key.removesuffix(name) for key in tensors for name in names if f".{key}".endswith(f".{name}"))
    if prefix is not None:
        fitting = Counter({p: n for p, n in fitting.items() if f".{p}".endswith(f".{prefix.strip('.')}.")})
    best = [place for place, n in fitting.items() if n == max(fitting.values())]
    if len(best) != 1:
        starts = [place[:-1] for place in best if place] or {".".join(key.split(".")[:2]): None for key in tensors}
        raise ConfigError(
            f"{len(best) or 'no'} networks in the weights file have the names of this encoder: "
            f"try {' or '.join(f'encoder.prefix={start}' for start in [*starts][:8])}, or another encoder"
        )
    return best[0]


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Every tensor of a .safetensors file or of a file by torch.save, by its dotted place: {"state_dict.fc.bias": ...}.

    Files by torch.save are read with `weights_only=True`. Objects in them that are no tensors, such as the
    hyperparameters in a checkpoint of Lightning, are replaced by empty ones: their classes are neither imported nor
    called.

    Raises:
        ConfigError: the file cannot be read in this way.
    """
    content = read_safetensors(path)[0] if path.suffix == ".safetensors" else _read_pickle(path)
    tensors = dict(_flatten(content))
    if not tensors:
        raise ConfigError(f"{path} holds no tensors: try a file with a state_dict")
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


class _Inert(dict[Any, Any]):
    """Stands for every object in a checkpoint that is neither a tensor nor a plain container; does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def __setstate__(self, _: Any) -> None:
        """Ignore the object's state."""
