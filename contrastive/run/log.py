"""Curves of a run: a line of metrics.jsonl and points in TensorBoard."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from contrastive.files import write_text


class Logs:
    """metrics.jsonl and TensorBoard's events; what came after the checkpoint is cut: a resumed run logs it again."""

    def __init__(self, path: Path, state: dict[str, Any] | None) -> None:
        from contrastive.run.tensorboard import TensorBoard  # slow to import, and a finished run needs no writer

        position: dict[str, Any] = state["logs"] if state else {"lines": 0, "events": {}}
        metrics = path / "metrics.jsonl"
        lines = _lines(path)[: position["lines"]]
        write_text(metrics, b"".join(lines).decode())
        cut_events(path, position["events"])
        self._n_lines, self._hash, self._lines = len(lines), hashlib.sha256(b"".join(lines)), metrics.open("a")
        self._path, self.tensorboard = path, TensorBoard(path, step=state["step"] if state else None)

    def add(self, step: int, epoch: float, metrics: dict[str, float]) -> None:
        line = json.dumps({"step": step, "epoch": epoch, **metrics}) + "\n"
        self._lines.write(line)
        self._lines.flush()
        self._hash.update(line.encode())
        self._n_lines += 1
        for key, value in metrics.items():
            self.tensorboard.add_scalar(key, value, step)

    def flush(self) -> dict[str, Any]:
        """Make everything logged durable; returns how far the logs are, for the checkpoint."""
        os.fsync(self._lines.fileno())
        self.tensorboard.flush()
        sizes = {file.name: file.stat().st_size for file in event_files(self._path)}
        return {"lines": self._n_lines, "sha256": self._hash.hexdigest(), "events": sizes}

    def finish(self) -> dict[str, Any]:
        """Make everything durable; returns what metrics.jsonl is in the end, for the result."""
        position = self.flush()
        return {name: position[name] for name in ("lines", "sha256")}

    def close(self) -> None:
        self._lines.close()
        self.tensorboard.close()


def missing_lines(path: Path, position: dict[str, Any]) -> str:
    """Why metrics.jsonl is not what the checkpoint counted; empty if it is."""
    lines, n = _lines(path), position["lines"]
    if len(lines) < n:
        return f"counts {n} lines of metrics.jsonl, which has {len(lines)}"
    same = hashlib.sha256(b"".join(lines[:n])).hexdigest() == position["sha256"]
    return "" if same else "counts lines of metrics.jsonl that were changed since"


def has_same_log(path: Path, result: dict[str, Any]) -> bool:
    """Whether metrics.jsonl of a finished run is what the run wrote; True where an older result does not say."""
    if not result.get("log"):
        return True
    return bool(result["log"].get("sha256") == hashlib.sha256(b"".join(_lines(path))).hexdigest())


def _lines(path: Path) -> list[bytes]:
    metrics = path / "metrics.jsonl"
    return metrics.read_bytes().splitlines(keepends=True) if metrics.exists() else []


def event_files(folder: Path) -> list[Path]:
    """TensorBoard's files."""
    return sorted(folder.glob("events.*"))


def cut_events(folder: Path, sizes: dict[str, int]) -> None:
    """Cut TensorBoard's files to the sizes they had at the checkpoint, and remove those that came later.

    What they lost cannot be written again; metrics.jsonl has the same points.
    """
    for name, least in sizes.items():
        if not (folder / name).exists() or (folder / name).stat().st_size < least:
            print(f"warning: {folder / name} was cut or removed, so TensorBoard lacks points that metrics.jsonl has")
    for file in event_files(folder):
        size = sizes.get(file.name)
        if size is None:
            file.unlink()
        elif file.stat().st_size > size:
            os.truncate(file, size)
