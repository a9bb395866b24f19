"""An average of the encoder's weights over the steps of training."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from torch import nn

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
