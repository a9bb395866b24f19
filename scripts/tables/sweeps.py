"""Figures over a setting of a table's grid."""

from statistics import mean, stdev
from typing import Any

from contrastive.report.curves import method_and_setting, short
from contrastive.report.record import look_up


def read_sweeps(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Figures over a numeric setting of the grid that has at least three values.

    Returns:
        {setting, x, metric, method, at: the rest of the point, mean, std, n} for every row and metric.
    """
    points = {row["name"]: split_point(row["point"]) for row in record["rows"]}
    values: dict[str, set[float]] = {}
    for point in points.values():
        for key, text in point.items():
            if (number := as_number(text)) is not None:
                values.setdefault(key, set()).add(number)
    swept = [key for key, numbers in values.items() if len(numbers) > 2]
    entries = []
    for row in record["rows"]:
        method, _ = method_and_setting(row, record)
        for setting in swept:
            x = as_number(points[row["name"]].get(setting, ""))
            at = ", ".join(f"{key} {value}" for key, value in points[row["name"]].items() if key != setting)
            for metric in record["metrics"] if x is not None else ():
                numbers = [value for run in row["runs"] if (value := look_up(run, metric)) is not None]
                if numbers:
                    std = stdev(numbers) if len(numbers) > 1 else 0.0
                    entries.append({
                        "setting": setting, "x": x, "metric": metric, "method": method, "at": at,
                        "mean": short(mean(numbers)), "std": short(std), "n": len(numbers),
                    })  # fmt: skip
    return entries


def split_point(point: str) -> dict[str, str]:
    """`batch_size 32, tau_plus 0.1` as {batch_size: 32, tau_plus: 0.1}."""
    pairs = [part.rpartition(" ") for part in point.split(", ") if part]
    return {key: value for key, _, value in pairs}


def as_number(text: str) -> float | None:
    """The number that a text is, or None."""
    try:
        return float(text)
    except ValueError:
        return None
