"""Numbers that a loss keeps for each training image."""

import torch
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.loss.base import Loss


def write(state: Tensor, index: Tensor, value: Tensor) -> None:
    """state[index] = value, without waiting for the device; of an image drawn twice the value of its last place."""
    rows, order = index.sort(stable=True)
    last = torch.searchsorted(rows, rows, right=True) - 1
    state[rows] = value[order[last]].to(state.dtype)


def check_one_state(loss: Loss) -> None:
    """Raise ConfigError if an image has anchors of two sources, because its one number is for one source."""
    if loss.index is not None and loss.others.across == "both" and loss.others.keys is None:
        raise ConfigError(
            f"{loss.name} keeps one number for an image and two sources need one each: "
            "try a loss for each direction, across='first'"
        )
