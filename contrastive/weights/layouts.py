"""Recognize whose file it is, and rename its tensors as torchvision names them."""

import re
from collections.abc import Collection
from itertools import dropwhile
from typing import NamedTuple

from torch import Tensor

from contrastive.errors import ConfigError

WRAPPERS = {"module", "_orig_mod", "_forward_module"}  # of DataParallel, torch.compile and Lightning's Fabric
OUTER = {"state_dict", "model"}  # where checkpoints keep the network
LAYOUTS = {  # prefix of the encoder's tensors, wrappers and outer keys removed → whose layout it is
    "": "torchvision or contrastive",
    "encoder_q.": "MoCo",
    "backbone.": "solo-learn or lightly",
    "encoder.": "SupContrast",
    "f.": "DCL or HCL",
}
STAGES = ("conv1", "bn1", "layer1", "layer2", "layer3", "layer4")


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
    if prefix is None:
        layouts = [_layout(forms, start, name) for forms in (tensors, bare) for start, name in LAYOUTS.items()]
    else:
        start = prefix.rstrip(".") + "."
        layouts = [
            _layout(tensors, start, f"prefix {start}"),
            _layout(bare, _without_wrappers(start), f"prefix {start}"),
        ]
    best = max(layouts, key=lambda layout: len(layout.tensors.keys() & set(names)))
    if not best.tensors.keys() & set(names):
        raise ConfigError(
            f"no tensor of the weights file belongs to this encoder, its names begin with {', '.join(_tops(bare))}: "
            "try encoder.prefix=PREFIX, or another encoder"
        )
    return best


def _layout(tensors: dict[str, Tensor], prefix: str, name: str) -> Layout:
    local = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
    outside = [key for key in tensors if not key.startswith(prefix)]
    indices = sorted({int(key.split(".")[0]) for key in local if re.match(r"\d+\.", key)})
    relu = True
    if len(indices) == len(STAGES):  # a ResNet's children in nn.Sequential; ReLU and max-pool have no tensors
        stage = dict(zip(map(str, indices), STAGES, strict=True))
        local = {_rename_first(key, stage): value for key, value in local.items()}
        relu = indices[2] > indices[1] + 1
    return Layout(name, {_torchvision_block(key): value for key, value in local.items()}, outside, relu)


def _rename_first(key: str, names: dict[str, str]) -> str:
    first, dot, rest = key.partition(".")
    return names.get(first, first) + dot + rest


def _torchvision_block(key: str) -> str:
    """`layer2.0.shortcut.0.weight`, as SupContrast and lightly call it → `layer2.0.downsample.0.weight`."""
    return re.sub(r"^(layer\d\.\d+)\.shortcut\.", r"\1.downsample.", key)


def _without_wrappers(key: str) -> str:
    """The dotted name without wrappers anywhere and without the checkpoint's outer keys."""
    return ".".join(dropwhile(OUTER.__contains__, (part for part in key.split(".") if part not in WRAPPERS)))


def _tops(keys: Collection[str]) -> list[str]:
    """The first two parts of the names, in order, at most eight of them."""
    return list(dict.fromkeys(".".join(key.split(".")[:2]) for key in keys))[:8]
