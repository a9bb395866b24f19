"""Curves of the losses inside a LightningModule: how strongly they repel, false negatives, estimates."""

from typing import Any

import lightning

from contrastive.loss.base import Loss


class PairCurves(lightning.Callback):  # type: ignore[misc]
    """Logs the diagnostics of every contrastive loss of the module, as `pairs/push_ratio`.

    `Trainer(callbacks=[PairCurves()])`. Those of false negatives (`debiasing/...`) need labels in the call of the loss.
    Points go to the loggers at the steps that they are of. `trainer.callback_metrics` has the last ones.

    Args:
        every: optimizer steps between two points, whatever `log_every_n_steps` is.
    """

    def __init__(self, *, every: int = 50) -> None:
        self.every = every
        self.step = -1  # of the last point; further batches of an accumulated step get none

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        step = trainer.global_step
        is_due = step % self.every == 0 and step != self.step
        for loss in losses(pl_module):
            loss.curves = {} if is_due else None
        self.step = step if is_due else self.step

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        for loss in losses(pl_module):
            if loss.curves:
                pl_module.log_dict(loss.curves, logger=False)
                # not by log_dict: Lightning writes what it was given last again with each of its own lines
                for logger in trainer.loggers:
                    logger.log_metrics({name: value.item() for name, value in loss.curves.items()}, step=self.step)
            loss.curves = None


def losses(module: lightning.LightningModule) -> list[Loss]:
    """The losses of this package among its parts."""
    return [part for part in module.modules() if isinstance(part, Loss)]
