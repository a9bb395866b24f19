"""Numbers that a loss keeps for each training image."""

import torch
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.loss.nt_xent import NTXent


def write(state: Tensor, index: Tensor, value: Tensor) -> None:
    """state[index] = value, without waiting for the device; of an image drawn twice the value of its last place."""
    rows, order = index.sort(stable=True)
    last = torch.searchsorted(rows, rows, right=True) - 1
    state[rows] = value[order[last]].to(state.dtype)


class PerImageLoss(NTXent):
    """A loss that keeps numbers for each training image; `seen` holds those of the anchors until the step ends."""

    reads_index = True
    picks_positive = False

    def __init__(self, *, temperature: float) -> None:
        super().__init__(temperature=temperature)
        self.seen: list[Tensor] = []

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice) -> Tensor:
        self.seen = []
        if self.index is not None and self.others.across == "both" and self.others.keys is None:
            raise ConfigError(
                f"{self.name} keeps one number for an image and two sources need one each: "
                "try a loss for each direction, across='first'"
            )
        return super().compute(z, label, bias, anchors)
