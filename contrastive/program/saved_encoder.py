"""The encoder of a finished run, and the statistics that its images were standardized with."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

from contrastive.dataset._splits import ChannelStats
from contrastive.errors import ConfigError
from contrastive.program.build import load_data
from contrastive.program.components import instantiate_node


def saved_encoder(run: Path, config: dict[str, Any], device: torch.device) -> nn.Module:
    """The encoder that config.yaml describes, with the weights of encoder.safetensors, in eval mode.

    Raises:
        ConfigError: the weights are missing, or belong to another network.
    """
    path = run / "encoder.safetensors"
    if not path.exists():
        raise ConfigError(f"{path} is missing: try the command of that run with rerun=true")
    encoder: nn.Module = instantiate_node(config["encoder"])
    try:
        encoder.load_state_dict(load_file(path))
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"{path} does not fit the encoder that config.yaml describes ({reason}): try rerun=true"
        ) from None
    layout = torch.channels_last if config["channels_last"] else torch.contiguous_format
    return encoder.to(device, memory_format=layout).eval()  # type: ignore[call-overload, no-any-return]


def training_statistics(run: Path, config: dict[str, Any]) -> ChannelStats:
    """Mean and standard deviation of the images that the encoder was trained on.

    Weights without metadata do not hold them: then the training data is loaded.
    """
    with safe_open(run / "encoder.safetensors", "pt") as file:
        metadata = file.metadata() or {}
    if {"mean", "std"} <= metadata.keys():
        return tuple(json.loads(metadata["mean"])), tuple(json.loads(metadata["std"]))
    data, _ = load_data(config["dataset"])
    return data.mean, data.std
