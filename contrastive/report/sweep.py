"""The table a sweep ends with."""

from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

COLUMNS = {"knn_top1": "kNN top-1", "linear_top1": "linear top-1", "few_shot_top1": "few-shot top-1"}


@dataclass
class Job:
    """One job of a sweep: what was asked, where it ran, and its result or why it failed."""

    overrides: list[str]
    path: Path
    result: dict[str, Any] | None = None
    failure: str | None = None


def spread(values: list[float]) -> str:
    """`mean ± std (n)` with the sample standard deviation; no ± for a single value."""
    if not values:
        return "-"
    if len(values) == 1:
        return f"{values[0]:.2f} (1)"
    return f"{mean(values):.2f} ± {stdev(values):.2f} ({len(values)})"


def grid(rows: list[list[str]]) -> str:
    """A Markdown table, padded so that it also reads in a terminal; the first row is its head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


def table(jobs: list[Job]) -> str:
    """Mean ± std over seeds of the test metrics, a row for each combination of the other swept keys."""
    settings = [dict(item.lstrip("+").split("=", 1) for item in job.overrides if "=" in item) for job in jobs]
    keys = sorted({key for s in settings for key in s})
    swept = [key for key in keys if key != "seed" and len({s.get(key) for s in settings}) > 1]
    groups: dict[tuple[str, ...], list[Job]] = {}
    for job, values in zip(jobs, settings, strict=True):
        groups.setdefault(tuple(values.get(key, "") for key in swept), []).append(job)
    rows = [[*swept, *COLUMNS.values(), "untrained kNN", "failed"]]
    for group, members in groups.items():
        done = [job.result for job in members if job.result]
        cells = [spread([result["test"][key] for result in done if key in result["test"]]) for key in COLUMNS]
        rows.append(
            [
                *group,
                *cells,
                spread([result["untrained"]["knn_top1"] for result in done]),
                str(sum(job.failure is not None for job in members) or ""),
            ]
        )
    failures = [f"failed: {' '.join(job.overrides)}: {job.failure}" for job in jobs if job.failure]
    return "\n".join(["", "Test accuracy in percent, mean ± std over seeds (n):", grid(rows), *failures])
