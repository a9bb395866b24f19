"""Checks for losses: golden values (`python -m contrastive.testing FILE.json`) and a conformance kit (`check_loss`)."""

from contrastive.program.make import build
from contrastive.testing.conformance import check_loss
from contrastive.testing.golden import check, run_case
from contrastive.testing.inputs import raw_inputs

__all__ = ["build", "check", "check_loss", "raw_inputs", "run_case"]
