"""The table at the end of a sweep."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrastive.text import format_grid, spread


@dataclass
class Job:
    """One job of a sweep: the settings typed, its directory, and its result or why it failed."""

    overrides: list[str]
    path: Path
    result: dict[str, Any] | None = None
    failure: str | None = None


def sweep_table(jobs: list[Job]) -> str:
    """Mean ± std over seeds of the test metrics, a row for each combination of the other swept keys.

    The last row is the mean over the distinct encoders before training: losses of one seed start from the same one.
    """
    settings = [dict(item.lstrip("+").split("=", 1) for item in job.overrides if "=" in item) for job in jobs]
    keys = sorted({key for values in settings for key in values})
    swept = [key for key in keys if key != "seed" and len({values.get(key) for values in settings}) > 1]
    groups: dict[tuple[str, ...], list[Job]] = {}
    for job, values in zip(jobs, settings, strict=True):
        groups.setdefault(tuple(values.get(key, "") for key in swept), []).append(job)
    metrics = list(dict.fromkeys(key for job in jobs if job.result for key in job.result["test"]))
    failed = any(job.failure for job in jobs)
    rows = [[*swept, *metrics, *(["failed"] if failed else [])]]
    for group, members in groups.items():
        count = [str(sum(job.failure is not None for job in members) or "")] if failed else []
        rows.append([*group, *_cells(members, "test", metrics), *count])
    if swept and metrics:
        cells = _cells(_distinct(jobs), "untrained", metrics)
        rows.append(["untrained", *[""] * (len(swept) - 1), *cells, *[""] * failed])
    failures = [f"failed: {' '.join(job.overrides)}: {job.failure}" for job in jobs if job.failure]
    return "\n".join(
        ["", "Test split, mean ± std over seeds (n); accuracies in percent:", format_grid(rows), *failures]
    )


def _distinct(jobs: list[Job]) -> list[Job]:
    """One job for each set of figures before training; runs that start from a file's weights have none untrained."""
    first: dict[str, Job] = {}
    for job in jobs:
        if job.result and not job.result.get("encoder", {}).get("weights"):
            first.setdefault(json.dumps(job.result["untrained"], sort_keys=True), job)
    return list(first.values())


def _cells(jobs: list[Job], group: str, metrics: list[str]) -> list[str]:
    results = [job.result[group] for job in jobs if job.result]
    return [spread([result[key] for result in results if key in result]) for key in metrics]
