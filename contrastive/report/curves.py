"""Curves of runs as means over seeds, and the color of each row: what figures and pages draw."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from contrastive.run import log
from contrastive.run.figures import KNN, LINEAR
from contrastive.run.files import read_result
from contrastive.run.log import missing_lines

MAX_POINTS = 20  # of a curve in a record
# Okabe & Ito 2008, told apart by color-blind readers; then darker and paler ones for more rows (Tol 2021)
COLORS = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31", "#882255", "#999999",
    "#332288", "#117733", "#44AA99", "#DDCC77", "#CC6677", "#AA4499", "#661100", "#6699CC", "#B8960C", "#555555",
]  # fmt: skip
LABELS = {
    f"test/{KNN}": "kNN top-1 (%)",
    "test/knn_top5": "kNN top-5 (%)",
    f"test/{LINEAR}": "linear probe top-1 (%)",
    "test/loss": "loss on test images",
    "val/loss": "loss on held-out images",
    "test/few_shot_top1": "few-shot probe top-1 (%)",
    "train/loss": "training loss",
    "pairs/top1": "contrastive accuracy (%)",
    "debiasing/false_negatives": "share of false negatives",
    "debiasing/negative_oracle": "negative term, oracle (log)",
    "debiasing/negative_estimate": "negative term, estimate (log)",
    "debiasing/negative_error": "error of the negative term (log)",
    "debiasing/positive_oracle": "positive term, oracle (log)",
    "debiasing/positive_estimate": "positive term, estimate (log)",
    "debiasing/positive_error": "error of the positive term (log)",
    "pairs/clamped": "share of anchors at the floor",
}


@dataclass(frozen=True, kw_only=True)
class Series:
    """A curve of a row: mean and standard deviation over n seeds at each epoch."""

    method: str
    setting: str
    key: str  # the name in metrics.jsonl
    published: bool
    epoch: list[float]
    mean: list[float]
    std: list[float]
    n: int
    minutes_per_epoch: float | None  # of the whole run, evaluation included; None if published


def label(key: str) -> str:
    """The title of an axis: what is shown, with its unit."""
    words = key.partition("/")[2].replace("/", " ").replace("_", " ")
    percent = key.endswith("top1") or key.endswith("accuracy")
    return LABELS.get(key, f"{words} (%)" if percent else words)


def method_and_setting(row: dict[str, Any], record: dict[str, Any]) -> tuple[str, str]:
    """A row's name as its method and the setting that it shares with other rows.

    The setting is the grid's point, or in a table without a grid what follows the first comma.
    """
    if any(other["point"] for other in record["rows"]):
        return row["name"].removesuffix(f", {row['point']}") if row["point"] else row["name"], row["point"]
    method, _, setting = row["name"].partition(", ")
    return method, setting


def read_series(record: dict[str, Any]) -> list[Series]:
    """Every curve of every row of a record, ours and the published ones."""
    series = []
    for row in record["rows"]:
        method, setting = method_and_setting(row, record)
        same: dict[str, Any] = {"method": method, "setting": setting}
        for key in dict.fromkeys(key for run in row["runs"] for key in run["curves"]):
            runs = [run for run in row["runs"] if key in run["curves"]]
            minutes = mean(run["minutes"] / float(run["settings"]["epochs"]) for run in runs)
            curves = over_seeds([run["curves"][key] for run in runs])
            series.append(Series(**same, key=key, published=False, **curves, minutes_per_epoch=short(minutes)))
        for key, curve in row["published_curves"].items():
            curves = over_seeds([curve])
            series.append(Series(**same, key=key, published=True, **curves, minutes_per_epoch=None))
    return series


def over_seeds(curves: list[dict[str, list[float]]]) -> dict[str, Any]:
    """Mean and sample standard deviation (0 for one seed) at the epochs that all curves have."""
    by_epoch = [dict(zip(curve["epoch"], curve["value"], strict=True)) for curve in curves]
    epochs = [epoch for epoch in curves[0]["epoch"] if all(epoch in own for own in by_epoch)]
    values = np.array([[own[epoch] for epoch in epochs] for own in by_epoch], dtype=float)
    away = values - values[0]  # from the first seed: equal values have a deviation of 0, not of 1e-17
    means, stds = values[0] + away.mean(axis=0), away.std(axis=0, ddof=min(1, len(curves) - 1))
    return {
        "epoch": epochs,
        "mean": [short(value) for value in means.tolist()],
        "std": [short(value) for value in stds.tolist()],
        "n": len(curves),
    }


def read_points(run: Path) -> list[dict[str, float]]:
    """`log.read_points`; a log changed after the run is said once."""
    _warn_if_changed(run)
    return log.read_points(run)


@cache
def _warn_if_changed(run: Path) -> None:
    if (result := read_result(run)) is not None and missing_lines(run, result["log"]):
        print(f"warning: {run / 'metrics.jsonl'} was changed after the run", file=sys.stderr)


def thin(points: Sequence[tuple[float, float]], limit: int = MAX_POINTS) -> dict[str, list[float]]:
    """At most `limit` of the points, evenly spaced, the first and the last among them, to four significant digits."""
    last = len(points) - 1
    count = min(limit, len(points))
    chosen = [points[round(i * last / max(1, count - 1))] for i in range(count)]
    return {"epoch": [short(epoch) for epoch, _ in chosen], "value": [short(value) for _, value in chosen]}


def short(value: float) -> float:
    """Four significant digits."""
    return float(f"{value:.4g}")


def colors_of(names: Sequence[str]) -> dict[str, str]:
    """{name: its color}, which further rows at the end leave as it is; more names than colors repeat them."""
    return {name: COLORS[i % len(COLORS)] for i, name in enumerate(dict.fromkeys(names))}
