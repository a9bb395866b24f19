"""Load the weights of an encoder from a file of any project: read as data, its layout recognized, its fit checked."""

import re
import warnings
from collections.abc import Collection, Sequence
from itertools import dropwhile
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from contrastive.errors import ConfigError
from contrastive.run.weights import read_safetensors

LAYOUTS = {  # prefix of the encoder's tensors, wrappers and outer keys removed → whose layout it is
    "": "torchvision or contrastive",
    "encoder_q.": "MoCo",
    "backbone.": "solo-learn or lightly",
    "encoder.": "SupContrast",
    "f.": "DCL or HCL",
}
WRAPPERS = {"module", "_orig_mod", "_forward_module"}  # of DataParallel, torch.compile and Lightning's Fabric
OUTER = {"state_dict", "model"}  # where checkpoints keep the network
CLASSIFIERS = {"fc", "classifier", "head", "heads", "linear", "prototypes"}  # first parts of names after the features
STAGES = ("conv1", "bn1", "layer1", "layer2", "layer3", "layer4")  # children of a ResNet that have tensors
# blocks of each stage, and whether they are bottlenecks → depth of the ResNet
DEPTHS: dict[tuple[tuple[int, ...], bool], int] = {
    ((2, 2, 2, 2), False): 18, ((3, 4, 6, 3), False): 34, ((3, 4, 6, 3), True): 50, ((3, 4, 23, 3), True): 101,
    ((3, 8, 36, 3), True): 152,
}  # fmt: skip
OURS = (18, 34, 50)  # depths that have a YAML of their own


def load_into(encoder: nn.Module, path: Path, prefix: str | None = None) -> str:
    """Replace every weight of the encoder by that of the file.

    Args:
        path: a file that `read_tensors` reads.
        prefix: of the encoder's tensors in the file; None = one of the known layouts.

    Returns:
        one line: whose layout it is, and which tensors of the file were left out.

    Raises:
        ConfigError: a weight is missing, left over or of another shape; the sentence says which setting would fit.
    """
    own = encoder.state_dict()
    layout = recognize(read_tensors(path), own.keys(), prefix)
    check_fit(own, layout, path)
    if not all(value.isfinite().all() for value in layout.tensors.values()):
        raise ConfigError(f"{path} holds weights that are not finite: try an earlier file of that training")
    check_relu(encoder, layout)
    used = {key: value for key, value in layout.tensors.items() if key in own}
    encoder.load_state_dict({**own, **used})  # files before torch counted batches lack num_batches_tracked
    line = f"encoder weights of {path}: {len(used)} tensors, layout of {layout.name}"
    if tops := [key.split(".")[0] for key in (*layout.outside, *(key for key in layout.tensors if key not in own))]:
        line += "; left out: " + ", ".join(f"{top} ({tops.count(top)})" for top in dict.fromkeys(tops))
    if layout.name == LAYOUTS["backbone."] and getattr(encoder, "stem", None) == "small" and layout.relu:
        line += "\nif solo-learn trained them on CIFAR, its 3 × 3 stem pads by 2: try encoder.stem=solo_learn"
    return line


class Layout(NamedTuple):
    """The encoder's part of a file.

    Attributes:
        name: whose layout it is.
        tensors: by the encoder's names.
        outside: names of the file's other tensors.
        relu: whether a ReLU follows bn1; False for lightly's ResNet in nn.Sequential.
    """

    name: str
    tensors: dict[str, Tensor]
    outside: list[str]
    relu: bool = True


def recognize(tensors: dict[str, Tensor], names: Collection[str], prefix: str | None = None) -> Layout:
    """The layout that shares most names with the encoder.

    Args:
        tensors: as `read_tensors` returns them.
        names: of the encoder's parameters and buffers.
        prefix: of the encoder's tensors in the file, for layouts that are not known; None = recognize.

    Raises:
        ConfigError: no tensor of the file belongs to the encoder.
    """
    bare = {_without_wrappers(key): value for key, value in tensors.items()}
    known = LAYOUTS
    if prefix is not None:
        start = prefix.rstrip(".") + "."
        known = dict.fromkeys((start, _without_wrappers(start)), f"prefix {start}")
    layouts = [_layout(forms, start, name) for forms in (tensors, bare) for start, name in known.items()]
    best = max(layouts, key=lambda layout: len(layout.tensors.keys() & set(names)))
    if not best.tensors.keys() & set(names):
        tops = dict.fromkeys(".".join(key.split(".")[:2]) for key in bare)
        raise ConfigError(
            f"no tensor of the weights file belongs to this encoder, its names begin with {', '.join([*tops][:8])}: "
            "try encoder.prefix=PREFIX, or another encoder"
        )
    return best


def _layout(tensors: dict[str, Tensor], prefix: str, name: str) -> Layout:
    """The tensors below a prefix, by torchvision's names."""
    local = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
    outside = [key for key in tensors if not key.startswith(prefix)]
    indices = sorted({int(key.split(".")[0]) for key in local if re.match(r"\d+\.", key)})
    relu = True
    if len(indices) == len(STAGES):  # a ResNet's children in nn.Sequential; ReLU and max-pool have no tensors
        stage = dict(zip(map(str, indices), STAGES, strict=True))
        local = {re.sub(r"^\d+", lambda index: stage[index[0]], key): value for key, value in local.items()}
        relu = indices[2] > indices[1] + 1
    # SupContrast and lightly call it `layer2.0.shortcut.0.weight`
    local = {re.sub(r"^(layer\d\.\d+)\.shortcut\.", r"\1.downsample.", key): value for key, value in local.items()}
    return Layout(name, local, outside, relu)


def _without_wrappers(key: str) -> str:
    """The dotted name without wrappers anywhere and without the checkpoint's outer keys."""
    return ".".join(dropwhile(OUTER.__contains__, (part for part in key.split(".") if part not in WRAPPERS)))


def check_fit(own: dict[str, Tensor], layout: Layout, path: Path) -> None:
    """Raise ConfigError unless the file has every weight of the encoder and no other but a classifier's."""
    theirs = layout.tensors
    missing = [key for key in own if key not in theirs and not key.endswith("num_batches_tracked")]
    unexpected = [key for key in theirs if key not in own and key.split(".")[0] not in CLASSIFIERS]
    shapes = [
        f"{key} of shape {tuple(theirs[key].shape)} instead of {tuple(own[key].shape)}"
        for key in own
        if key in theirs and theirs[key].shape != own[key].shape
    ]
    faults = [f"lacks {_some(missing)}"] if missing else []
    faults += [f"has {_some(unexpected)} besides"] if unexpected else []
    faults += [f"has {_some(shapes)}"] if shapes else []
    if faults:
        advice = _resnet_settings(layout, own) or "encoder=NAME for the network that the file holds"
        raise ConfigError(f"{path} does not fit this encoder, it {' and '.join(faults)}: try {advice}")


def _some(names: Sequence[str]) -> str:
    """The first three names, and how many more there are."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def check_relu(encoder: nn.Module, layout: Layout) -> None:
    """Raise ConfigError if only one of the two networks has a ReLU after bn1."""
    lightly = getattr(encoder, "stem", None) == "lightly"
    if not (layout.relu or lightly):
        raise ConfigError(
            "the file holds lightly's ResNet in nn.Sequential, which has no ReLU after bn1: "
            "try encoder=resnet18 encoder.stem=lightly"
        )
    if lightly and layout.relu:
        raise ConfigError("the file's network has a ReLU after bn1, encoder.stem=lightly none: try encoder.stem=small")


def _resnet_settings(layout: Layout, own: dict[str, Tensor]) -> str | None:
    """What to type for the ResNet that the file holds; None if it holds another network, or the encoder's."""
    settings = _describe(layout.tensors, small="small" if layout.relu else "lightly")
    return None if settings == _describe(own) else settings


def _describe(tensors: dict[str, Tensor], small: str = "small") -> str | None:
    """Depth, width and stem of a ResNet as settings, read from the shapes of its weights; None for another network.

    Args:
        small: what a 3 × 3 stem is called.
    """
    conv1 = tensors.get("conv1.weight")
    if conv1 is None or "layer4.0.conv1.weight" not in tensors:
        return None
    counts = tuple(len({key.split(".")[1] for key in tensors if key.startswith(f"layer{i}.")}) for i in range(1, 5))
    depth = DEPTHS.get((counts, "layer1.0.conv3.weight" in tensors))
    width, is_small = conv1.shape[0], conv1.shape[-1] == 3
    if depth in OURS:
        return f"encoder=resnet{depth} encoder.width={width} encoder.stem={small if is_small else 'large'}"
    if depth is not None and width == 64:
        return f"encoder=torchvision encoder.name=resnet{depth} encoder.stem={'small' if is_small else 'null'}"
    return None


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Every tensor of a .safetensors file or of a file by torch.save, by its dotted place: {"state_dict.fc.bias": ...}.

    Files by torch.save are read with `weights_only=True`. Objects in them that are no tensors, such as the
    hyperparameters in a checkpoint of Lightning, are replaced by empty ones: their classes are neither imported nor
    called.

    Raises:
        ConfigError: the file cannot be read in this way.
    """
    content = read_safetensors(path)[0] if path.suffix == ".safetensors" else _read_pickle(path)
    try:
        tensors = dict(_flatten(content))
    except RecursionError as error:
        raise ConfigError(f"{path} holds a dict that holds itself: try a file with a state_dict") from error
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
