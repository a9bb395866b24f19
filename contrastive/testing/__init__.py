"""Checks of your own losses, encoders and datasets, and golden values (`python -m contrastive.testing FILE.json`)."""

from contrastive.testing.check_golden import check, run_case
from contrastive.testing.conformance import check_loss
from contrastive.testing.dataset import check_dataset
from contrastive.testing.encoder import check_encoder
from contrastive.testing.inputs import raw_inputs

__all__ = ["check", "check_dataset", "check_encoder", "check_loss", "raw_inputs", "run_case"]
