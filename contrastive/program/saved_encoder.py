"""The encoder of a finished run, and the statistics that its images were standardized with."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from contrastive.dataset._splits import ChannelStats
from contrastive.program.components import instantiate_node
from contrastive.program.encoder_output import image_size
from contrastive.program.load_encoder import load_state
from contrastive.run.config import encoder_node
from contrastive.run.own_weights import check_own
from contrastive.weights.file import weights_path
from contrastive.weights.metadata import read_metadata


def saved_encoder(run: Path, config: dict[str, Any], device: torch.device) -> nn.Module:
    """The encoder that config.yaml describes, also one of your own, with the weights of the run, in eval mode.

    Raises:
        ConfigError: the weights are missing, damaged, or belong to another network or run.
    """
    file = weights_path(run)
    check_own(file)
    node = encoder_node(config["encoder"], image_size(config["dataset"]))
    encoder: nn.Module = instantiate_node({**node, "pretrained": False} if "pretrained" in node else node)
    load_state(encoder, file)
    layout = torch.channels_last if config["channels_last"] else torch.contiguous_format
    return encoder.to(device, memory_format=layout).eval()  # type: ignore[call-overload, no-any-return]


def training_statistics(run: Path) -> ChannelStats:
    """Mean and standard deviation of the images that the encoder was trained on."""
    metadata = read_metadata(weights_path(run))
    return tuple(metadata["mean"]), tuple(metadata["std"])
