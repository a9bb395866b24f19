"""LoRA: of the linear layers inside an encoder's blocks only an update of low rank is trained (Hu et al. 2021)."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive.encoder._depth import BLOCK
from contrastive.errors import ConfigError


class LoRALinear(nn.Linear):
    """A linear layer with the weight W + B A: A is (rank, in) and drawn as W would be, B is (out, rank) and 0 at first.

    The factor α / r of the paper is 1.
    """

    down: nn.Parameter
    up: nn.Parameter

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight + self.up @ self.down, self.bias)


def add_lora(encoder: nn.Module, rank: int) -> None:
    """Train updates of this rank to the linear layers of the blocks that are not frozen, and nothing else.

    Args:
        rank: r; 0 = no LoRA, and the encoder stays as it is.

    Raises:
        ConfigError: there is no such layer.
    """
    if rank == 0:
        return
    layers = [
        layer
        for name, layer in encoder.named_modules()
        if type(layer) is nn.Linear and BLOCK.match(name + ".") and layer.weight.requires_grad
    ]
    if not layers:
        raise ConfigError(
            "encoder.lora is for linear layers, as the blocks of ViTs have them, and these blocks have none that is "
            "trained: try encoder.lora=0"
        )
    encoder.requires_grad_(False)
    for layer in layers:
        n_out, n_in = layer.weight.shape
        layer.down = nn.Parameter(layer.weight.new_empty(rank, n_in))
        layer.up = nn.Parameter(layer.weight.new_zeros(n_out, rank))
        nn.init.kaiming_uniform_(layer.down, a=math.sqrt(5))
        layer.__class__ = LoRALinear  # its parameters keep their names, as in `make_convolutions_safe`


@torch.no_grad()
def merge(encoder: nn.Module) -> nn.Module:
    """Put the updates into the weights, in place: the network is what it was without LoRA. Returns it."""
    for layer in encoder.modules():
        if isinstance(layer, LoRALinear):
            layer.weight += layer.up @ layer.down
            del layer.up, layer.down
            layer.__class__ = nn.Linear  # type: ignore[assignment]
    return encoder


def merged(encoder: nn.Module) -> nn.Module:
    """A copy whose updates are in its weights, every one of which is free to change."""
    return merge(copy.deepcopy(encoder)).requires_grad_()
