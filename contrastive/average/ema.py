"""An average of the encoder's weights over the steps of training: the exponential moving one."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from contrastive.errors import check_between
from contrastive.training.hook import Hook, Training
from contrastive.training.step import StepOutput


class Average(Hook, ABC):
    """A hook with an encoder of its own, which is evaluated and saved instead of the trained one.

    Attributes:
        encoder: the average, in eval mode; at first the encoder as it is.
        protocol: a few words, stored beside each number.

    Args:
        encoder: the one that is trained.
    """

    protocol: str

    def __init__(self, encoder: nn.Module) -> None:
        self.encoder = copy.deepcopy(encoder).eval()

    @abstractmethod
    def on_step(self, training: Training, output: StepOutput) -> None:
        """Take the weights of `training.step.encoder` into the average."""

    def state_dict(self) -> dict[str, Any]:
        return {"encoder": self.encoder.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.encoder.load_state_dict(state["encoder"])


def of_average(protocol: Mapping[str, str], average: str | None) -> dict[str, str]:
    """What is stored beside the numbers of each evaluator, of an averaged encoder with the words of the average."""
    return {name: f"{text}; {average}" if average else text for name, text in protocol.items()}


class EMA(Average):
    """θ̄ ← d θ̄ + (1 - d) θ after each step, with d = min(decay, (1 + t) / (10 + t)) after t steps.

    With the second term of the minimum the first steps, in which the weights change fast, are soon forgotten. It is
    that of TensorFlow's ExponentialMovingAverage with `num_updates`. Buffers, such as BatchNorm's statistics, are
    averaged like weights; those of whole numbers are copied.

    Args:
        encoder: the one that is trained.
        decay: in [0, 1); 0 is no average.

    Raises:
        ConfigError: decay is out of range.
    """

    def __init__(self, encoder: nn.Module, *, decay: float = 0.999) -> None:
        check_between("average.decay", decay, 0, 1, exclude=(1,), example=0.999)
        super().__init__(encoder)
        self.decay = decay
        self.protocol = f"weights averaged over the steps (EMA, decay {decay:g})"

    def on_step(self, training: Training, output: StepOutput) -> None:
        t = training.steps_done
        decay = min(self.decay, (1 + t) / (10 + t))
        move(self.encoder, training.step.encoder, 1 - decay)


@torch.no_grad()
def move(average: nn.Module, trained: nn.Module, share: float) -> None:
    """Move an average by a share of the way to the trained module of the same structure; whole numbers are copied."""
    pairs = list(zip(tensors(average), tensors(trained), strict=True))
    moving = [pair for pair in pairs if pair[0].is_floating_point()]
    torch._foreach_lerp_([old for old, _ in moving], [new for _, new in moving], share)
    for old, new in pairs:
        if not old.is_floating_point():
            old.copy_(new)


def tensors(module: nn.Module) -> list[torch.Tensor]:
    """Parameters and buffers, in the module's order."""
    return [*module.parameters(), *module.buffers()]
