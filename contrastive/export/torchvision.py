"""An encoder as a state dict of torchvision."""

from pathlib import Path

import torch
from torch import nn
from torchvision import models

from contrastive.encoder.torchvision import OF_ONE_SIZE
from contrastive.errors import ConfigError
from contrastive.experiment.encoder import load_encoder, with_defaults
from contrastive.files import atomic
from contrastive.run.files import weights_path
from contrastive.run.weights import read_weights

OURS, TORCHVISIONS = "contrastive.encoder.resnet.ResNet", "contrastive.encoder.torchvision.torchvision_encoder"


def export_torchvision(path: str | Path) -> str:
    """Write encoder.pth beside the encoder's file, for `load_state_dict(..., strict=False)` of torchvision's network.

    Only the classifier is missing in it. What has to be changed in the network first, for a small stem, is returned.

    Args:
        path: a run directory, or its encoder.safetensors alone.

    Returns:
        the path of the written file, and how to load it.

    Raises:
        ConfigError: the network is none of torchvision's, or `load_encoder` refuses the file.
    """
    file = weights_path(path)
    encoder, _ = load_encoder(file)
    metadata = read_weights(file).metadata
    name, changes = torchvision_name(with_defaults(metadata["node"]))
    size = {"image_size": metadata["image_size"][0]} if name.startswith(OF_ONE_SIZE) else {}
    network = models.get_model(name, weights=None, **size)
    for place, module in changes.items():
        setattr(network, place, module)
    keys = network.load_state_dict(encoder.state_dict(), strict=False)
    assert not keys.unexpected_keys, keys.unexpected_keys
    target = file.with_suffix(".pth")
    with atomic(target) as part:
        torch.save(encoder.state_dict(), part)
    arguments = ", ".join(f"{key}={value}" for key, value in size.items())
    lines = [f"network = torchvision.models.{name}({arguments})"]
    lines += [f"network.{place} = torch.nn.{module}" for place, module in changes.items()]
    lines += [f"network.load_state_dict(torch.load('{target}'), strict=False)  # lacks {keys.missing_keys}"]
    return "\n".join([str(target), *lines])


def torchvision_name(node: dict[str, object]) -> tuple[str, dict[str, nn.Module]]:
    """The name of torchvision's network, and the modules in which the encoder differs from it.

    Raises:
        ConfigError: it is none of torchvision's.
    """
    if node["_target_"] == OURS and node["width"] == 64:
        name = f"resnet{node['depth']}"
    elif node["_target_"] == TORCHVISIONS:
        name = str(node["name"])
    else:
        arguments = ", ".join(f"{key}={value}" for key, value in node.items() if key != "_target_")
        raise ConfigError(
            f"{node['_target_']} with {arguments} is no network of torchvision: "
            "try --onnx, or encoder.safetensors with contrastive.load_encoder"
        )
    padding = {"small": 1, "solo_learn": 2, "lightly": 1}.get(str(node["stem"]))
    if padding is None:
        return name, {}
    changes: dict[str, nn.Module] = {
        "conv1": nn.Conv2d(3, 64, kernel_size=3, padding=padding, bias=False),
        "maxpool": nn.Identity(),
    }
    return name, changes | ({"relu": nn.Identity()} if node["stem"] == "lightly" else {})
