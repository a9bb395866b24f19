"""Figures of later evaluations (RUN/evaluation/), by names under which runs can be compared."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from contrastive.run.files import read_evaluations
from contrastive.run.identity import flatten, is_identity

NOT_COMPARED = ("dataset.size",)  # follows the run: images of the side that the encoder was trained on


class Metric(NamedTuple):
    """One metric: its name without settings, the settings of its evaluator and dataset, the split, the value."""

    name: str
    settings: str
    split: str
    value: float


def evaluated_figures(runs: list[Path]) -> dict[Path, dict[str, dict[str, float]]]:
    """{run: {split: {metric: value}}} of every evaluation of the runs.

    On another dataset a metric is called `dataset:metric`. Where the runs have it under different settings of its
    evaluator, `#` and a hash of the settings follow, so that only figures of one protocol share a name.
    """
    # of two figures of one name the newest counts
    figures = {run: [figure for record in _oldest_first(run) for figure in _figures(record)] for run in runs}
    settings: dict[str, set[str]] = {}
    for items in figures.values():
        for figure in items:
            settings.setdefault(figure.name, set()).add(figure.settings)
    named: dict[Path, dict[str, dict[str, float]]] = {}
    for run, items in figures.items():
        named[run] = {"test": {}, "val": {}}
        for name, setting, split, value in items:
            named[run][split][name if len(settings[name]) == 1 else f"{name}#{setting}"] = value
    return named


def _oldest_first(run: Path) -> list[dict[str, Any]]:
    """The evaluations of a run; of two on the same data, images may have changed between them."""
    return sorted(read_evaluations(run).values(), key=lambda record: str(record["time"]["finished"]))


def _figures(record: dict[str, Any]) -> Iterator[Metric]:
    """Every figure of one evaluation."""
    prefix = f"{record['dataset']}:" if record["is_transfer"] else ""
    evaluators = sorted(record["settings"]["evaluator"], key=len, reverse=True)
    for split in ("test", "val"):
        for key, value in record[split].items():
            owner = next(name for name in evaluators if key == name or key.startswith(f"{name}_"))
            nodes = {"dataset": record["settings"]["dataset"], owner: record["settings"]["evaluator"][owner]}
            yield Metric(f"{prefix}{key}", _digest(nodes), split, value)


def _digest(nodes: dict[str, Any]) -> str:
    settings = {key: value for key, value in flatten(nodes).items() if is_identity(key) and key not in NOT_COMPARED}
    if "name" in nodes["dataset"]:  # an image folder: two may have one name
        settings["dataset.root"] = nodes["dataset"]["root"]
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:6]
