"""The exponential moving average of the encoder's weights."""

import torch
from torch import nn

from contrastive.average.base import Average
from contrastive.errors import check_between
from contrastive.training.hook import Training
from contrastive.training.step import StepOutput


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
