"""Curves of the losses inside a LightningModule: how strongly they repel, false negatives, estimates."""

from typing import Any

import lightning
from torch import Tensor

from contrastive.loss.base import Loss


class PairCurves(lightning.Callback):  # type: ignore[misc]
    """Logs the diagnostics of every contrastive loss of the module, as `pairs/push_ratio`.

    `Trainer(callbacks=[PairCurves()])`. Those of false negatives (`debiasing/...`) need labels in the call of the loss.

    Args:
        every: steps between two points.
    """

    def __init__(self, *, every: int = 50) -> None:
        self.every = every

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        for loss in losses(pl_module):
            loss.curves = {} if trainer.global_step % self.every == 0 else None

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        for loss in losses(pl_module):
            curves: dict[str, Tensor] = loss.curves or {}
            pl_module.log_dict(curves)
            loss.curves = None


def losses(module: lightning.LightningModule) -> list[Loss]:
    """The losses of this package among its parts."""
    return [part for part in module.modules() if isinstance(part, Loss)]
