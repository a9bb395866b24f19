"""Save and load checkpoints with a hash of their content.

    checkpoints/last.pt  checkpoints/previous.pt

`last.pt` is used; `previous.pt`, the one before, where `last.pt` is damaged or missing.
"""

import hashlib
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.files import atomic
from contrastive.run.files import LAST, PREVIOUS
from contrastive.run.log import missing_lines

MADE_BY = ("config", "data")  # hashes that must agree before a checkpoint is continued; that of the code need not


class CheckpointError(Exception):
    """Why a checkpoint cannot be used."""


def save_checkpoint(run: Path, state: dict[str, Any], *, made_by: dict[str, str]) -> None:
    """Replace last.pt; what it was becomes previous.pt.

    Args:
        state: plain containers and tensors.
        made_by: as `provenance_hashes` returns them.
    """
    content = {**state, "made_by": made_by}
    with atomic(run / LAST, keep=run / PREVIOUS) as part, part.open("wb") as file:
        torch.save({**content, "sha256": content_hash(content)}, file)  # given a path, it hides why writing fails


class CheckpointWriter:
    """Replaces a run's checkpoint in a thread, one at a time: training goes on meanwhile.

    Attributes:
        seconds: what the last one took, hashed, written and on the disk; 0 before the first.

    Args:
        made_by: as `provenance_hashes` returns them.
    """

    def __init__(self, run: Path, *, made_by: dict[str, str]) -> None:
        self.run, self.made_by, self.seconds = run, made_by, 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._last: Future[None] | None = None

    def start(self, state: dict[str, Any]) -> None:
        """Begin to write, once the checkpoint before is written.

        Args:
            state: as of `save_checkpoint`, on the CPU; nobody changes it any more.

        Raises:
            OSError: the one before could not be written.
        """
        self.wait()
        self._last = self._thread.submit(self._write, state)

    def _write(self, state: dict[str, Any]) -> None:
        since = time.perf_counter()
        save_checkpoint(self.run, state, made_by=self.made_by)
        self.seconds = time.perf_counter() - since

    def wait(self) -> None:
        """Return when the last checkpoint is on the disk; raises what kept it from there, once."""
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def close(self) -> None:
        """`wait`, and end the thread."""
        self._thread.shutdown()
        self.wait()


def load_checkpoint(run: Path, *, made_by: dict[str, str]) -> dict[str, Any]:
    """The content of last.pt, else of previous.pt, which then becomes last.pt; tensors on the CPU.

    Raises:
        ConfigError: neither can be used.
    """
    reasons = []
    for path in (run / LAST, run / PREVIOUS):
        try:
            state = read_checkpoint(path, made_by=made_by)
        except CheckpointError as error:
            reasons.append(f"{path.name} {error}")
            continue
        if reasons:
            print(f"warning: {'; '.join(reasons)}: continuing from {path.name}, the checkpoint before it")
            path.replace(run / LAST)
        return state
    raise ConfigError(
        f"{run} was interrupted and no checkpoint can be used ({'; '.join(reasons)}): try rerun=true to start it over"
    )


def read_checkpoint(path: Path, *, made_by: dict[str, str]) -> dict[str, Any]:
    """The content of one checkpoint of a run.

    Raises:
        CheckpointError: it, or a line of the log that it counts, is missing, damaged, or of another configuration or
            other data.
    """
    if not path.exists():
        raise CheckpointError("is missing")
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        if state.pop("sha256") != content_hash(state):
            raise ValueError("its checksum does not agree")
    except Exception as error:  # torch raises whatever a damaged archive or pickle leads to
        raise CheckpointError("is damaged or of another version") from error
    if differing := [key for key in MADE_BY if state["made_by"].get(key) != made_by[key]]:
        raise CheckpointError(f"is of another run: other {' and '.join(differing)}")
    if missing := missing_lines(path.parents[1], state["logs"]):
        raise CheckpointError(missing)
    return state


def content_hash(node: Any) -> str:
    """sha256 of nested dicts, lists, tensors and plain values; equal for a checkpoint before and after the disk."""
    digest = hashlib.sha256()
    _feed(digest, node)
    return digest.hexdigest()


def _feed(digest: Any, node: Any) -> None:
    if isinstance(node, Tensor):
        flat = node.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(f"{node.dtype}{tuple(node.shape)}".encode())
        digest.update(flat.numpy().data)
    elif isinstance(node, dict):
        digest.update(f"dict{len(node)}".encode())
        for key, value in sorted(node.items(), key=lambda item: repr(item[0])):  # a file may order them otherwise
            digest.update(repr(key).encode())
            _feed(digest, value)
    elif isinstance(node, list | tuple):
        digest.update(f"list{len(node)}".encode())
        for value in node:
            _feed(digest, value)
    else:
        digest.update(repr(node).encode())
