"""The weights of an encoder that torchvision has, as torchvision's own network loads them."""

from pathlib import Path
from typing import Any

import torch

from contrastive.errors import ConfigError
from contrastive.experiment.encoder import with_defaults
from contrastive.files import atomic
from contrastive.run.files import RGB, weights_path
from contrastive.run.weights import read_weights

RESNET = "contrastive.encoder.resnet.ResNet"
TORCHVISION = "contrastive.encoder.torchvision.torchvision_encoder"


def torchvision_name(metadata: dict[str, Any]) -> str | None:
    """What `torchvision.models.get_model` calls this network, for images of any channels; None for one that it does not
    have, such as a ResNet with a small stem or another width."""
    node = with_defaults(metadata["node"])
    if node["_target_"] == RESNET and (node["width"], node["stem"]) == (64, "large"):
        return f"resnet{node['depth']}"
    return str(node["name"]) if node["_target_"] == TORCHVISION and node["stem"] is None else None


def export_torchvision(path: str | Path) -> Path:
    """Write encoder.pth beside the encoder's file, and return its path.

        network = torchvision.models.get_model("resnet18")  # the network of the run
        network.load_state_dict(torch.load("encoder.pth"), strict=False)  # all but the classifier

    Args:
        path: a run directory, or its encoder.safetensors alone.

    Raises:
        ConfigError: torchvision has no such network, or the file is not one of a run.
    """
    file = weights_path(path)
    tensors, metadata = read_weights(file)
    name = torchvision_name(metadata)
    if name is None or len(metadata["mean"]) != RGB:
        raise ConfigError(
            f"torchvision has no network like that of {file}: try --pt2, or --huggingface DIR; "
            "encoder=resnet18 encoder.stem=large is one of its own"
        )
    target = file.with_suffix(".pth")
    with atomic(target) as part:
        torch.save(tensors, part)
    return target
