"""Load a file of weights into an encoder; every tensor of both is accounted for."""

from collections.abc import Collection, Iterable
from pathlib import Path

from torch import Tensor, nn

from contrastive.errors import ConfigError
from contrastive.weights.file import read_tensors
from contrastive.weights.layouts import LAYOUTS, Layout, recognize

CLASSIFIERS = {"fc", "classifier", "head", "heads", "linear", "prototypes"}  # first parts of names after the features
BLOCKS: dict[
    tuple[tuple[int, ...], bool], int
] = {  # blocks of each stage, and whether they are bottlenecks → depth of the ResNet
    ((2, 2, 2, 2), False): 18,
    ((3, 4, 6, 3), False): 34,
    ((3, 4, 6, 3), True): 50,
    ((3, 4, 23, 3), True): 101,
    ((3, 8, 36, 3), True): 152,
}
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
    counters = {key: value for key, value in own.items() if key.endswith("num_batches_tracked")}
    encoder.load_state_dict(counters | {key: value for key, value in layout.tensors.items() if key in own})
    left_out = [*layout.outside, *(key for key in layout.tensors if key not in own)]
    line = f"encoder weights of {path}: {len(own.keys() & layout.tensors.keys())} tensors, layout of {layout.name}"
    line = f"{line}; left out: {_summary(left_out)}" if left_out else line
    if layout.name == LAYOUTS["backbone."] and getattr(encoder, "stem", None) == "small" and layout.relu:
        line += "\nif solo-learn trained them on CIFAR, its 3 × 3 stem pads by 2: try encoder.stem=solo_learn"
    return line


def check_fit(own: dict[str, Tensor], layout: Layout, path: Path) -> None:
    """Raise ConfigError unless the file has every weight of the encoder and no other but a classifier's."""
    theirs = layout.tensors
    missing = [key for key in own if key not in theirs and not key.endswith("num_batches_tracked")]
    unexpected = [key for key in theirs if key not in own and key.split(".")[0] not in CLASSIFIERS]
    shapes = [key for key in own if key in theirs and theirs[key].shape != own[key].shape]
    if not (missing or unexpected or shapes):
        return
    faults = [f"lacks {_some(missing)}"] if missing else []
    faults += [f"has {_some(unexpected)} besides"] if unexpected else []
    faults += [f"has {_some(_shape(key, theirs[key], own[key]) for key in shapes)}"] if shapes else []
    advice = _resnet_settings(layout, own) or "encoder=NAME for the network that the file holds"
    raise ConfigError(f"{path} does not fit this encoder, it {' and '.join(faults)}: try {advice}")


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
    if settings is None or settings == _describe(own):
        return None
    return " ".join(f"{key}={value}" for key, value in settings.items())


def _describe(tensors: dict[str, Tensor], small: str = "small") -> dict[str, object] | None:
    """Depth, width and stem of a ResNet as settings, read from the shapes of its weights."""
    conv1 = tensors.get("conv1.weight")
    if conv1 is None or "layer4.0.conv1.weight" not in tensors:
        return None
    counts = tuple(len({key.split(".")[1] for key in tensors if key.startswith(f"layer{i}.")}) for i in range(1, 5))
    depth = BLOCKS.get((counts, "layer1.0.conv3.weight" in tensors))
    width, is_small = conv1.shape[0], conv1.shape[-1] == 3
    if depth in OURS:
        return {"encoder": f"resnet{depth}", "encoder.width": width, "encoder.stem": small if is_small else "large"}
    if depth is not None and width == 64:
        return {
            "encoder": "torchvision", "encoder.name": f"resnet{depth}", "encoder.stem": "small" if is_small else "null",
        }  # fmt: skip
    return None


def _shape(key: str, theirs: Tensor, own: Tensor) -> str:
    return f"{key} of shape {tuple(theirs.shape)} instead of {tuple(own.shape)}"


def _some(names: Iterable[str], most: int = 3) -> str:
    """The first few names, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _summary(names: Collection[str]) -> str:
    """The first parts of the names, each with the number of its tensors."""
    tops = [name.split(".")[0] for name in names]
    return ", ".join(f"{top} ({tops.count(top)})" for top in dict.fromkeys(tops))
