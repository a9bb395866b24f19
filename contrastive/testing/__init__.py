"""Checks of your own losses, encoders and datasets."""

from contrastive.testing.components import check_dataset, check_encoder
from contrastive.testing.loss import check_loss

__all__ = ["check_dataset", "check_encoder", "check_loss"]
