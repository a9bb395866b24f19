"""A progress bar for evaluators that take longer than seconds."""

import os

from tqdm import tqdm

DELAY = 3.0  # seconds before the bar shows


def progress(total: int, name: str, *, unit: str = "batch") -> tqdm:
    """A bar over `total` units of the evaluator `name`; only on a terminal, and by the first of several processes."""
    quiet = True if os.environ.get("RANK", "0") != "0" else None  # None: quiet unless on a terminal
    return tqdm(total=total, desc=name, unit=unit, delay=DELAY, mininterval=1, leave=False, disable=quiet)
