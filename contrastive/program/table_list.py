"""The list of tables: rows, runs, what is done, how long the rest takes here, which data is missing."""

import json
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

from contrastive.program.missing_data import Missing, missing_data
from contrastive.program.table_jobs import TableJob, table_jobs
from contrastive.report.sweep import format_grid
from contrastive.report.table import Table
from contrastive.run.result import read_result

DATA_KEYS = ("dataset", "experiment", "data_root")

ComposeDataset = Callable[[tuple[str, ...]], dict[str, Any]]


def tables_text(
    tables: list[Table], base: Path, *, device: str, on_cpu: bool, n_parallel: int, dataset: ComposeDataset
) -> str:
    """A line for each table.

    Args:
        base: the folder of all tables' runs. device: the name of this device, a CPU or not. n_parallel: runs at a time.
        dataset: words → the resolved node of the dataset.
    """
    rows = [["table", "rows", "runs", "done", "hours left", "missing data"]]
    for table in tables:
        jobs = table_jobs(table, base / table.home)
        if table.script is not None:
            rows.append([table.name, "-", "-", "-", "seconds", ""])
            continue
        n_done = sum(read_result(job.path) is not None for job in jobs)
        on_a_gpu = on_cpu and table.needs_gpu and not any(minutes_taken(job.path, device) for job in jobs)
        hours = hours_left(jobs, device)
        needed = "-" if hours is None else f"{hours:.2g} on a GPU" if on_a_gpu else f"{hours / n_parallel:.2g}"
        missing = "; ".join(str(item).removeprefix("data missing: ") for item in missing_of(jobs, dataset))
        rows.append([table.name, str(len(table.rows)), str(len(jobs)), str(n_done), needed, missing])
    return format_grid(rows)


def hours_left(jobs: list[TableJob], device: str) -> float | None:
    """Hours of the runs that are not done, one after the other; None when nothing tells how long one takes.

    A run takes what the finished runs of its row took on this device, else those of the table, else the minutes that
    the table states.
    """
    taken = {job.path: minutes for job in jobs if (minutes := minutes_taken(job.path, device)) is not None}
    of_table = mean(taken.values()) if taken else None
    total = 0.0
    for job in jobs:
        if read_result(job.path) is not None:
            continue
        of_row = [taken[other.path] for other in jobs if other.row == job.row and other.path in taken]
        expected = mean(of_row) if of_row else of_table if of_table is not None else job.row.minutes
        if expected is None:
            return None
        total += expected
    return total / 60


def minutes_taken(path: Path, device: str) -> float | None:
    """Minutes of a finished run; None when it is not finished or ran on another device."""
    result = read_result(path)
    if result is None:
        return None
    if json.loads((path / "environment.json").read_text())["device"] != device:
        return None
    return float(result["time"]["seconds"]) / 60


def missing_of(jobs: list[TableJob], dataset: ComposeDataset) -> dict[Missing, list[TableJob]]:
    """The data that the jobs need and do not find, each with its jobs; a dataset is composed once."""
    nodes: dict[tuple[str, ...], Missing | None] = {}
    missing: dict[Missing, list[TableJob]] = {}
    for job in jobs:
        words = tuple(word for word in job.words if word.split("=")[0].split(".")[0] in DATA_KEYS)
        if words not in nodes:
            nodes[words] = missing_data(dataset(words))
        if (item := nodes[words]) is not None:
            missing.setdefault(item, []).append(job)
    return missing
