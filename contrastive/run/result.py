"""result.json of a finished run, read only if it is whole. Imports no torch."""

import hashlib
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
    plain = json.loads(json.dumps(result, allow_nan=False))
    write_text(result_file(run), json.dumps({**plain, "checksum": checksum(plain)}, indent=1))


def checksum(result: dict[str, Any]) -> str:
    """sha256 of a result's content."""
    return hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()


def read_result(run: Path) -> dict[str, Any] | None:
    """The content of result.json, without its checksum; None if it is missing, damaged, or a figure is not finite."""
    try:
        result = json.loads(result_file(run).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if isinstance(result, dict) and result.pop("checksum", None) not in (None, checksum(result)):
        return None
    is_whole = isinstance(result, dict) and all(isinstance(result.get(group), dict) for group in GROUPS)
    is_whole = is_whole and all(isinstance(result.get(group, {}), dict) for group in ("log", "made_by", "weights"))
    is_whole = is_whole and "config" in result.get("made_by", {"config": ""})
    is_whole = is_whole and all(map(_is_number, result["test"].values()))
    return result if is_whole and is_finite(result) else None


def is_finite(node: Any) -> bool:
    """Whether every number of nested containers is finite."""
    pending = [node]
    while pending:
        value = pending.pop()
        if isinstance(value, dict | list):
            pending += value.values() if isinstance(value, dict) else value
        elif isinstance(value, float) and not math.isfinite(value):
            return False
    return True


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)
