"""Curves of a loss in a Hugging Face Trainer, that of sentence-transformers included."""

from typing import Any

from torch import nn
from transformers import Trainer, TrainerCallback

from contrastive.loss.base import Loss


class PairCurves(TrainerCallback):  # type: ignore[misc]
    """Logs the diagnostics of every contrastive loss beside the Trainer's own lines, as `pairs/push_ratio`.

    `trainer.add_callback(PairCurves(trainer, loss))`. Those of false negatives (`debiasing/...`) need labels in the
    call of the loss.

    Args:
        trainer: whose `log` writes the curves, every `logging_steps`.
        loss: a module that is or holds losses of this package: the model, or the `loss` of sentence-transformers.
    """

    def __init__(self, trainer: Trainer, loss: nn.Module) -> None:
        self.trainer = trainer
        self.losses = [part for part in loss.modules() if isinstance(part, Loss)]

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        for loss in self.losses:
            loss.curves = {} if (state.global_step + 1) % state.logging_steps == 0 else None

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        is_due = control.should_log  # the Trainer's own line, which any other line would take as written
        for loss in self.losses:
            if loss.curves:
                self.trainer.log({name: value.item() for name, value in loss.curves.items()})
            loss.curves = None
        control.should_log = is_due
