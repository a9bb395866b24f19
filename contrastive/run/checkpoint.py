"""Save and load checkpoints with a hash of their content.

    checkpoints/last.pt  checkpoints/previous.pt

`last.pt` is used; `previous.pt`, the one before, where `last.pt` is damaged or missing.
"""

from pathlib import Path
from typing import Any

import torch

from contrastive.errors import ConfigError
from contrastive.files import atomic
from contrastive.run.files import LAST, PREVIOUS
from contrastive.run.log import missing_lines
from contrastive.run.weights import content_hash

MADE_BY = ("config", "data")  # hashes that must agree before a checkpoint is continued; that of the code need not


class CheckpointError(Exception):
    """Why a checkpoint cannot be used."""


def save_checkpoint(run: Path, state: dict[str, Any], *, made_by: dict[str, str]) -> None:
    """Replace last.pt; what it was becomes previous.pt.

    Args:
        state: plain containers and tensors. made_by: as `provenance_hashes` returns them.
    """
    content = {**state, "made_by": made_by}
    with atomic(run / LAST, keep=run / PREVIOUS) as part, part.open("wb") as file:
        torch.save({**content, "sha256": content_hash(content)}, file)  # given a path, it hides why writing fails


def load_checkpoint(run: Path, *, made_by: dict[str, str]) -> dict[str, Any]:
    """The content of last.pt, else of previous.pt, which then becomes last.pt; tensors on the CPU.

    Raises:
        ConfigError: neither can be used.
    """
    reasons = []
    for path in (run / LAST, run / PREVIOUS):
        try:
            state = read_checkpoint(path, made_by=made_by)
            if missing := missing_lines(run, state["logs"]):
                raise CheckpointError(missing)
        except CheckpointError as error:
            reasons.append(f"{path.name} {error}")
            continue
        if reasons:
            print(f"warning: {'; '.join(reasons)}: going on from {path.name}, the checkpoint before it")
            path.replace(run / LAST)
        return state
    raise ConfigError(
        f"{run} was interrupted and no checkpoint can be used ({'; '.join(reasons)}): try rerun=true to start it over"
    )


def read_checkpoint(path: Path, *, made_by: dict[str, str]) -> dict[str, Any]:
    """The content of one checkpoint.

    Raises:
        CheckpointError: it is missing, damaged, or of another configuration or other data.
    """
    if not path.exists():
        raise CheckpointError("is missing")
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        expected, recorded = state.pop("sha256"), state["made_by"]
        whole = content_hash(state) == expected
    except Exception as error:  # torch raises whatever a damaged archive or pickle leads to
        raise CheckpointError("is damaged or of another version") from error
    if not whole:
        raise CheckpointError("is damaged: its checksum does not agree")
    if differing := [key for key in MADE_BY if recorded.get(key) != made_by[key]]:
        raise CheckpointError(f"is of another run: other {' and '.join(differing)}")
    return state
