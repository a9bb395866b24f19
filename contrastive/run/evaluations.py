"""Evaluations of a finished run: RUN/evaluation/<name>.json, beside result.json and never over it."""

import hashlib
import json
from pathlib import Path
from typing import Any

from contrastive.atomic import write_text
from contrastive.run.identity import flatten, is_identity
from contrastive.weights.content import file_hash
from contrastive.weights.metadata import ENCODER

FOLDER = "evaluation"
MAX_LENGTH = 100  # characters of a name before its hash


def evaluation_name(dataset: str, nodes: dict[str, dict[str, Any]]) -> str:
    """`knn+linear-digits-1a2b3c4d`: the evaluators, the dataset and a hash of the settings of both.

    Args:
        dataset: its name. nodes: the nodes of the evaluators by name, and that of the dataset under `dataset`.
    """
    settings = {key: value for key, value in flatten(nodes).items() if is_identity(key)}
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]
    evaluators = "+".join(name.removeprefix("evaluator.") for name in nodes if name != "dataset")
    return f"{f'{evaluators}-{dataset}'[:MAX_LENGTH]}-{digest}"


def read_evaluation(run: Path, name: str) -> dict[str, Any] | None:
    """The record of that name, if its weights are those that the run has now."""
    path = run / FOLDER / f"{name}.json"
    record: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None
    return record if record is not None and record["weights"] == file_hash(run / ENCODER) else None


def read_evaluations(run: Path) -> dict[str, dict[str, Any]]:
    """{name: record} of every evaluation of the weights that the run has now, by name."""
    names = sorted(path.stem for path in (run / FOLDER).glob("*.json"))
    records = {name: read_evaluation(run, name) for name in names}
    return {name: record for name, record in records.items() if record is not None}


def write_evaluation(run: Path, name: str, record: dict[str, Any]) -> Path:
    """Write a record atomically; returns its path."""
    path = run / FOLDER / f"{name}.json"
    write_text(path, json.dumps({**record, "weights": file_hash(run / ENCODER)}, indent=1, allow_nan=False))
    return path
