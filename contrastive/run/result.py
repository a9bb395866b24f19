"""result.json of a finished run, read only if it is whole. Imports no torch."""

import json
import math
from pathlib import Path
from typing import Any

from contrastive.atomic import write_text

GROUPS = ("test", "untrained", "val", "audit", "protocol", "time")  # of every result


def result_file(run: Path) -> Path:
    """The path of result.json, whose existence means that the run is done."""
    return run / "result.json"


def write_result(run: Path, result: dict[str, Any]) -> None:
    """Write result.json.

    Raises:
        ValueError: a figure is not finite.
    """
    write_text(result_file(run), json.dumps(result, indent=1, allow_nan=False))


def read_result(run: Path) -> dict[str, Any] | None:
    """The content of result.json; None if it is missing, cut, or holds anything but finite figures."""
    try:
        result = json.loads(result_file(run).read_bytes())
    except (OSError, ValueError):
        return None
    is_whole = isinstance(result, dict) and all(isinstance(result.get(group), dict) for group in GROUPS)
    return result if is_whole and all(map(_is_figure, result["test"].values())) else None


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
