"""Checks for losses: `check_loss`, and golden values with `python -m contrastive.testing FILE.json`."""

from contrastive.program.make import build
from contrastive.testing.conformance import check_loss
from contrastive.testing.golden import check, run_case
from contrastive.testing.inputs import raw_inputs

__all__ = ["build", "check", "check_loss", "raw_inputs", "run_case"]
