"""Which weights of an encoder are trained: blocks that stay as they are, rates that fall towards them, and LoRA."""

import copy
import math
import re

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parameter import Parameter

from contrastive.errors import ConfigError

# `blocks.3` of a ViT, `layer1` of a ResNet, `stages.0` of a ConvNeXt, `encoder.layers.encoder_layer_3` of torchvision
BLOCK = re.compile(r"(?!stem|patch_embed)((?:.*?\.)??(?:(?:encoder_)?layer_?)?\d+)\.")


def by_depth(encoder: nn.Module) -> list[list[str]]:
    """Names of the parameters: those before the first block, those of each block in order, and those after the last.

    A block is one of a ViT, or a stage of a ResNet or ConvNeXt, by the names that torchvision and timm give them.
    """
    groups: dict[str, list[str]] = {"": []}
    last: list[str] = []
    for name, _ in encoder.named_parameters():
        if (match := BLOCK.match(name)) is not None:
            groups.setdefault(match[1], []).append(name)
        else:
            (groups[""] if len(groups) == 1 else last).append(name)
    return [*groups.values(), last]


def freeze_first(encoder: nn.Module, frozen: float) -> None:
    """Let the weights of the first blocks stay as they are, with all that comes before them.

    Their BatchNorm keeps its running statistics, and in training still normalizes by those of the batch.

    Args:
        frozen: how many blocks, or below 1 which share of them, rounded down; 0 = none, and nothing before them.

    Raises:
        ConfigError: more blocks than there are.
    """
    groups = by_depth(encoder)
    n_blocks = len(groups) - 2
    n = int(frozen * n_blocks) if frozen < 1 else int(frozen)
    if n > n_blocks or (frozen > 0 and n_blocks == 0):
        raise ConfigError(f"encoder.frozen={frozen:g}, and the encoder has {n_blocks} blocks: try encoder.frozen=0.5")
    if n == 0:
        return
    still = {name for group in groups[: n + 1] for name in group}
    for name, parameter in encoder.named_parameters():
        parameter.requires_grad_(parameter.requires_grad and name not in still)
    for place, module in encoder.named_modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d) and f"{place}.weight" in still:
            module.momentum = 0.0


def rates(encoder: nn.Module, decay: float) -> list[tuple[float, list[Parameter]]]:
    """(factor on the learning rate, parameters that are trained) from the last group of `by_depth` to the first.

    Args:
        decay: the factor from each group to the one before it, in (0, 1]; with 1 there is one group of all.
    """
    parameters = dict(encoder.named_parameters())
    groups = by_depth(encoder) if decay < 1 else [[*parameters]]
    return [
        (decay**i, [parameters[name] for name in group if parameters[name].requires_grad])
        for i, group in enumerate(reversed(groups))
    ]


class LoRALinear(nn.Linear):
    """A linear layer with the weight W + B A, of which the update B A of low rank is trained (Hu et al. 2021, LoRA).

    A is (rank, in) and drawn as W would be, B is (out, rank) and 0 at first. The factor α / r of the paper is 1.
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
    linears = [layer for name, layer in encoder.named_modules() if type(layer) is nn.Linear and BLOCK.match(name + ".")]
    layers = [layer for layer in linears if layer.weight.requires_grad]
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
def merged(encoder: nn.Module) -> nn.Module:
    """A copy whose updates are in its weights, every one of which is free to change: the network without LoRA."""
    encoder = copy.deepcopy(encoder)
    for layer in encoder.modules():
        if isinstance(layer, LoRALinear):
            layer.weight += layer.up @ layer.down
            del layer.up, layer.down
            layer.__class__ = nn.Linear  # type: ignore[assignment]
    return encoder.requires_grad_()
