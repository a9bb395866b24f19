"""Curves of a run: a line of metrics.jsonl and points in TensorBoard."""

import json
import os
from pathlib import Path
from typing import Any

from contrastive.atomic import write_text


class Logs:
    """metrics.jsonl and TensorBoard's events; lines after the checkpoint are cut: a resumed run logs them again."""

    def __init__(self, path: Path, state: dict[str, Any] | None) -> None:
        from contrastive.run.tensorboard import TensorBoard  # slow to import, and a finished run needs no writer

        metrics = path / "metrics.jsonl"
        lines = metrics.read_text().splitlines(keepends=True)[: state["lines"]] if state and metrics.exists() else []
        write_text(metrics, "".join(lines))
        self._n_lines, self._lines = len(lines), metrics.open("a")
        self.tensorboard = TensorBoard(path, step=state["step"] if state else None)

    def add(self, step: int, epoch: float, metrics: dict[str, float]) -> None:
        self._lines.write(json.dumps({"step": step, "epoch": epoch, **metrics}) + "\n")
        self._lines.flush()
        self._n_lines += 1
        for key, value in metrics.items():
            self.tensorboard.add_scalar(key, value, step)

    def flush(self) -> int:
        """Make the lines durable; returns their number."""
        os.fsync(self._lines.fileno())
        self.tensorboard.flush()
        return self._n_lines

    def __enter__(self) -> "Logs":
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self.tensorboard.close()
