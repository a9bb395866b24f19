"""Curves of a run, thinned until they can be committed."""

import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from contrastive.errors import ConfigError
from contrastive.run.logs import has_same_log
from contrastive.run.result import read_result

MAX_POINTS = 20
DIAGNOSTICS = ("train/loss", "train/grad_norm", "pairs/", "debiasing/", "bias/")
USUAL = ("knn_top1", "linear_top1")  # test metrics that are kept whether or not the table shows them


def read_points(run: Path) -> list[dict[str, float]]:
    """The lines of metrics.jsonl; none if a run has no such file. A log changed after the run is said once.

    Raises:
        ConfigError: a line is damaged.
    """
    path = run / "metrics.jsonl"
    if not path.exists():
        return []
    _warn_if_changed(run)
    try:
        return [json.loads(line) for line in path.read_text().splitlines()]
    except ValueError as error:
        raise ConfigError(f"{path} is damaged: try rerun=true with the command of the run to start it over") from error


@cache
def _warn_if_changed(run: Path) -> None:
    if (result := read_result(run)) is not None and not has_same_log(run, result):
        print(f"warning: {run / 'metrics.jsonl'} was changed after the run", file=sys.stderr)


def curve(run: Path, key: str) -> tuple[list[float], list[float]]:
    """(epochs, values) of one logged metric."""
    points = [point for point in read_points(run) if key in point]
    return [point["epoch"] for point in points], [point[key] for point in points]


def thinned_curves(run: Path, metrics: list[str]) -> dict[str, dict[str, list[float]]]:
    """{logged name: {epoch: [...], value: [...]}} of the metrics and the diagnostics, at most 20 points each.

    Args:
        metrics: columns of a table; `knn_top1` is logged as test/knn_top1, `audit.linear.top1` as audit/linear/top1.
    """
    points = read_points(run)
    logged = dict.fromkeys(key for point in points for key in point)
    wanted = {logged_name(metric) for metric in [*metrics, *USUAL]}
    names = [key for key in logged if key in wanted or key.startswith(DIAGNOSTICS)]
    series = {name: thin([(point["epoch"], point[name]) for point in points if name in point]) for name in names}
    return {name: pairs for name, pairs in series.items() if len(pairs["epoch"]) > 1}


def logged_name(metric: str) -> str:
    """The name in metrics.jsonl of a table's metric."""
    return metric.replace(".", "/") if "." in metric else f"test/{metric}"


def thin(points: Sequence[tuple[float, float]]) -> dict[str, list[float]]:
    """At most 20 of the points, evenly spaced, the first and the last among them, to four significant digits."""
    last = len(points) - 1
    count = min(MAX_POINTS, len(points))
    chosen = [points[round(i * last / max(1, count - 1))] for i in range(count)]
    return {"epoch": [short(epoch) for epoch, _ in chosen], "value": [short(value) for _, value in chosen]}


def short(value: float) -> float:
    """Four significant digits."""
    return float(f"{value:.4g}")
