"""Evaluations of a finished run: RUN/evaluation/<name>.json, beside result.json and never over it."""

import hashlib
import json
from pathlib import Path
from typing import Any

from contrastive.atomic import write_text
from contrastive.errors import ConfigError
from contrastive.run.identity import flatten, is_identity
from contrastive.weights.content import file_hash
from contrastive.weights.metadata import ENCODER

FOLDER = "evaluation"
MAX_LENGTH = 100  # characters of a name before its hash
KEYS = {"weights", "dataset", "settings", "test", "val", "protocol", "time", "environment"}  # of every record


def evaluation_name(dataset: str, nodes: dict[str, dict[str, Any]], *, data_hash: str) -> str:
    """`knn+linear-digits-1a2b3c4d`: the evaluators, the dataset and a hash of the settings and the data.

    Args:
        dataset: its name. nodes: the nodes of the evaluators by name, and that of the dataset under `dataset`.
        data_hash: of the images and labels; two folders may have one name.
    """
    settings = {key: value for key, value in flatten(nodes).items() if is_identity(key)}
    digest = hashlib.sha256(json.dumps([settings, data_hash], sort_keys=True).encode()).hexdigest()[:8]
    evaluators = "+".join(name.removeprefix("evaluator.") for name in nodes if name != "dataset")
    return f"{f'{evaluators}-{dataset}'[:MAX_LENGTH]}-{digest}"


def read_evaluation(run: Path, name: str) -> dict[str, Any] | None:
    """The record of that name, if it is whole and its weights are those that the run has now."""
    try:
        record = json.loads((run / FOLDER / f"{name}.json").read_bytes())
    except (OSError, ValueError):
        return None
    is_whole = isinstance(record, dict) and record.keys() >= KEYS
    return record if is_whole and record["weights"] == file_hash(run / ENCODER) else None


def read_evaluations(run: Path) -> dict[str, dict[str, Any]]:
    """{name: record} of every evaluation of the weights that the run has now, by name."""
    names = sorted(path.stem for path in (run / FOLDER).glob("*.json"))
    records = {name: read_evaluation(run, name) for name in names}
    return {name: record for name, record in records.items() if record is not None}


def write_evaluation(run: Path, name: str, record: dict[str, Any]) -> Path:
    """Write a record atomically; returns its path.

    Raises:
        ConfigError: the run no longer has the weights that were evaluated.
    """
    path = run / FOLDER / f"{name}.json"
    if not (run / ENCODER).exists() or record["weights"] != file_hash(run / ENCODER):
        raise ConfigError(f"the weights of {run} changed while they were evaluated: try the same command again")
    write_text(path, json.dumps(record, indent=1, allow_nan=False))
    return path
