"""Curves of a run: the lines of metrics.jsonl."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from contrastive.errors import ConfigError
from contrastive.files import misfit, write_text
from contrastive.run.files import ADVICE, RESULT


class Logs:
    """metrics.jsonl; what came after the checkpoint is cut: a resumed run logs it again."""

    def __init__(self, path: Path, state: dict[str, Any] | None) -> None:
        metrics = path / "metrics.jsonl"
        lines = _lines(path)[: state["logs"]["lines"] if state else 0]
        write_text(metrics, b"".join(lines).decode())
        self._n_lines, self._hash, self._lines = len(lines), hashlib.sha256(b"".join(lines)), metrics.open("a")

    def add(self, step: int, epoch: float, metrics: dict[str, float]) -> None:
        line = json.dumps({"step": step, "epoch": epoch, **metrics}) + "\n"
        self._lines.write(line)
        self._lines.flush()
        self._hash.update(line.encode())
        self._n_lines += 1

    def flush(self) -> dict[str, Any]:
        """Make everything logged durable; returns how much it is, for the checkpoint and for the result."""
        os.fsync(self._lines.fileno())
        return {"lines": self._n_lines, "sha256": self._hash.hexdigest()}

    def close(self) -> None:
        self._lines.close()


def missing_lines(path: Path, position: dict[str, Any]) -> str:
    """Why metrics.jsonl does not begin as a checkpoint, or the result, counted it; empty if it does."""
    lines, n = _lines(path), position["lines"]
    if len(lines) < n:
        return f"counts {n} lines of metrics.jsonl, which has {len(lines)}"
    same = hashlib.sha256(b"".join(lines[:n])).hexdigest() == position["sha256"]
    return "" if same else "counts lines of metrics.jsonl that were changed since"


def _lines(path: Path) -> list[bytes]:
    metrics = path / "metrics.jsonl"
    return metrics.read_bytes().splitlines(keepends=True) if metrics.exists() else []


def read_points(run: Path) -> list[dict[str, float]]:
    """The lines of metrics.jsonl: step, epoch and what was logged there; none if a run has no such file.

    A last line without an end is left out: the run is writing it, or was stopped while it did.

    Raises:
        ConfigError: a line is damaged.
    """
    try:
        points = [json.loads(line) for line in _lines(run) if line.endswith(b"\n")]
        place = next((place for point in points if (place := misfit(point, dict[str, float])) is not None), None)
        if place is not None or not all({"step", "epoch"} <= point.keys() for point in points):
            raise ValueError(place or "no step or no epoch")
    except (ValueError, RecursionError) as error:
        advice = ADVICE if (run / RESULT).exists() else "try the command of the run again, which resumes it"
        raise ConfigError(f"{run / 'metrics.jsonl'} is damaged ({error}): {advice}") from error
    return points
