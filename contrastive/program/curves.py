"""The names under which scores become curves."""

from typing import Any

from contrastive.evaluator.base import Scores
from contrastive.run.directory import RunDirectory


def log_scores(run: RunDirectory, scores: Scores, *, step: int, epoch: int) -> None:
    """Log the scores after training as points of curves and histograms."""
    run.log(step, epoch, grouped("test", scores.test) | nested("audit", scores.audit))
    for name, values in scores.histograms.items():
        run.log_histogram(step, name, values)


def grouped(group: str, metrics: dict[str, float]) -> dict[str, float]:
    """Metric names as curves are grouped: group/name."""
    return {f"{group}/{key}": value for key, value in metrics.items()}


def nested(group: str, record: dict[str, Any]) -> dict[str, float]:
    """The numbers of a nested record as curves: group/outer/inner."""
    curves: dict[str, float] = {}
    for key, value in record.items():
        if isinstance(value, dict):
            curves |= nested(f"{group}/{key}", value)
        elif not isinstance(value, str):
            curves[f"{group}/{key}"] = value
    return curves
