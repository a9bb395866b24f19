"""Load the weights of an encoder from a file of any project: read as data, found by its names, its fit checked."""

import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Collection
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from contrastive.errors import ConfigError
from contrastive.run.weights import read_safetensors

# where the trained network is beside one that follows it, such as encoder_k, momentum_backbone, model_ema
TRAINED = ("encoder_q", "backbone", "encoder", "f", "model", "state_dict")
CLASSIFIERS = {"fc", "classifier", "head", "heads", "linear", "prototypes"}  # first parts of names after the features
STAGES = ("conv1", "bn1", "layer1", "layer2", "layer3", "layer4")  # children of a ResNet that have tensors
SHORTCUT = re.compile(r"((?:^|\.)layer\d\.\d+)\.shortcut\.")
NUMBERED = re.compile(r"^(|.*?\.)(\d+)\.")  # a name up to its first number


def load_into(encoder: nn.Module, path: Path, prefix: str | None = None) -> str:
    """Replace every weight of the encoder by that of the file.

    Args:
        path: a file that `read_tensors` reads.
        prefix: see `find_place`.

    Returns:
        one line: where in the file the encoder is, and which tensors of the file were left out.

    Raises:
        ConfigError: a weight is missing, left over or of another shape, or is not finite.
    """
    own, (tensors, relu) = encoder.state_dict(), torchvision_names(read_tensors(path))
    place = find_place(tensors, own, prefix)
    theirs = {key.removeprefix(place): value for key, value in tensors.items() if key.startswith(place)}
    if not all(value.isfinite().all() for value in theirs.values()):
        raise ConfigError(f"{path} holds weights that are not finite: try an earlier file of that training")
    if relu == (getattr(encoder, "stem", None) == "lightly"):
        stem = "small" if relu else "lightly"
        raise ConfigError(f"lightly's own ResNet alone has no ReLU after bn1: try encoder=resnet18 encoder.stem={stem}")
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
    others = [key for key in tensors if not (key.startswith(place) and key.removeprefix(place) in own)]
    if tops := [_first_other_part(key, place) for key in others]:
        line += "; left out: " + ", ".join(f"{top} ({tops.count(top)})" for top in dict.fromkeys(tops))
    if place.endswith("backbone.") and getattr(encoder, "stem", None) == "small" and relu:
        line += "\nif solo-learn trained them on CIFAR, its 3 × 3 stem pads by 2: try encoder.stem=solo_learn"
    return line


def torchvision_names(tensors: dict[str, Tensor]) -> tuple[dict[str, Tensor], bool]:
    """The tensors of ResNets by torchvision's names, and whether a ReLU follows bn1; of other networks as they are.

    SupContrast and lightly call a downsample `shortcut`. DCL, HCL and lightly number the children of a ResNet, in
    nn.Sequential, where ReLU and max-pool have no tensors: lightly has no ReLU after bn1.
    """
    named = {SHORTCUT.sub(r"\1.downsample.", key): value for key, value in tensors.items()}
    numbers = defaultdict[str, set[int]](set)  # of children, by the place of their parent
    for key in named:
        if found := NUMBERED.match(key):
            numbers[found[1]].add(int(found[2]))
    stages, relu = dict[str, str](), True
    for place, children in numbers.items():
        if len(children) == len(STAGES) and f"{place}{max(children)}.0.conv1.weight" in named:
            _, bn1, layer1, *_ = ordered = sorted(children)
            relu = layer1 > bn1 + 1
            stages |= {f"{place}{n}.": f"{place}{stage}." for n, stage in zip(ordered, STAGES, strict=True)}
    return {NUMBERED.sub(lambda start: stages.get(start[0], start[0]), key): x for key, x in named.items()}, relu


def find_place(tensors: Collection[str], names: Collection[str], prefix: str | None = None) -> str:
    """What stands before the encoder's names in a file: `state_dict.module.encoder_q.`

    Args:
        tensors: the names in the file.
        names: of the encoder's parameters and buffers.
        prefix: the last parts of the place, where several networks in the file fit; None = the one that fits best.

    Raises:
        ConfigError: no tensor of the file belongs to the encoder, or two networks fit equally well.
    """
    fitting = Counter(key.removesuffix(name) for key in tensors for name in names if f".{key}".endswith(f".{name}"))
    if prefix is not None:
        fitting = Counter({p: n for p, n in fitting.items() if f".{p}".endswith(f".{prefix.strip('.')}.")})
    if not fitting:
        tops = dict.fromkeys(".".join(key.split(".")[:2]) for key in tensors)
        raise ConfigError(
            f"no tensor of the weights file belongs to this encoder, its names begin with {', '.join([*tops][:8])}: "
            "try encoder.prefix=PREFIX, or another encoder"
        )
    best = [place for place, n in fitting.items() if n == max(fitting.values())]
    pairs = zip(best, [best[-1], *best[:-1]], strict=True)  # each beside another, a single one beside itself
    trained = [place for place, other in pairs if place == other or _first_other_part(place, other) in TRAINED]
    if len(trained) != 1:
        choices = " or ".join(f"encoder.prefix={place[:-1]}" for place in best if place)
        raise ConfigError(f"the weights file holds several networks that fit this encoder: try {choices}")
    return trained[0]


def _first_other_part(key: str, place: str) -> str:
    """The first part of a name in which it differs from a place."""
    return next(part for part, own in zip_longest(key.split("."), place.split(".")) if part != own)


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
