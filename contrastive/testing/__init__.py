"""Checks of your own losses, encoders and datasets, and golden values (`python -m contrastive.testing FILE.json`)."""

from contrastive.testing.dataset import check_dataset
from contrastive.testing.encoder import check_encoder
from contrastive.testing.golden import check, raw_inputs, run_case
from contrastive.testing.loss import check_loss

__all__ = ["check", "check_dataset", "check_encoder", "check_loss", "raw_inputs", "run_case"]
