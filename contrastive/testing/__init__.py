"""Checks of your own losses, encoders and datasets."""

from contrastive.testing.dataset import check_dataset
from contrastive.testing.encoder import check_encoder
from contrastive.testing.loss import check_loss

__all__ = ["check_dataset", "check_encoder", "check_loss"]
