"""The line through the leads over NT-Xent against the logarithm of the width, and what it forecasts for width 64.

python studies/widths/forecast.py

Each seed has a line of its own, by least squares over the widths; slopes and forecasts are means over seeds with the
interval of a t-test. So they allow for other seeds, and not for a lead that is no line.
"""

import json
from pathlib import Path

import numpy as np
from scipy.stats import t

RECORD, REFERENCE, WIDTH = Path(__file__).parent / "record.json", "NT-Xent", 64


def figures() -> dict[str, dict[int, dict[int, float]]]:
    """{method: {width: {seed: kNN}}}"""
    found: dict[str, dict[int, dict[int, float]]] = {}
    for row in json.loads(RECORD.read_text())["rows"]:
        method, width = row["name"].split(", width ")
        found.setdefault(method, {})[int(width)] = {run["seed"]: run["test"]["knn_top1"] for run in row["runs"]}
    return found


def interval(values: np.ndarray) -> str:
    """Mean and 95 % interval over seeds."""
    half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return f"{values.mean():.1f} [{values.mean() - half:.1f}, {values.mean() + half:.1f}]"


def forecast(method: str) -> tuple[str, str]:
    """What the lead grows by with each doubling of the width, and what it is at width 64."""
    found = figures()
    leads = [[found[method][w][seed] - found[REFERENCE][w][seed] for seed in found[method][w]] for w in found[method]]
    slope, start = np.polyfit(np.log2([*found[method]]), np.array(leads), 1)
    return interval(slope), interval(start + slope * np.log2(WIDTH))


def table() -> list[str]:
    """The rows of the page."""
    return [f"| {method} | {' | '.join(forecast(method))} |" for method in figures() if method != REFERENCE]


if __name__ == "__main__":
    print("\n".join(table()))
