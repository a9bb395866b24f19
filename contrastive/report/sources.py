"""Read what a page shows: records of tables, and a record made of any finished runs."""

from pathlib import Path
from typing import Any

from contrastive.errors import ConfigError
from contrastive.report.jobs import find_jobs
from contrastive.report.sweep import metric_names
from contrastive.run.files import read_config
from contrastive.tables.page import read_table_json
from contrastive.tables.record import Shared, row_record, views_as_png
from contrastive.tables.spec import Row


def read_sources(paths: list[Path]) -> tuple[list[dict[str, Any]], list[str]]:
    """The tables among the paths in their order, then everything else as one table of runs.

    Args:
        paths: a table's JSON, the folder of its runs, or any folder with finished runs.

    Returns:
        the records, and a sentence for each path or run that is left out.

    Raises:
        ConfigError: a path does not exist, or nothing is left to show.
    """
    tables, folders, left_out = [], [], []
    for path in paths:
        if not path.exists():
            raise ConfigError(f"{path} does not exist: try python -m contrastive.report page OUT.html outputs")
        file = path if path.is_file() else path.with_name(f"{path.name}.json")
        if not file.exists():
            folders.append(path)
        elif (record := read_table_json(file)) is not None:
            tables.append(record)
        else:
            left_out.append(f"{path} holds no table and is left out")
    runs, repeated = runs_source(folders) if folders else (None, [])
    records = [*tables, *([runs] if runs else [])]
    if not records:
        raise ConfigError(f"no table or finished run in {', '.join(map(str, paths))}: try make reproduce-table")
    return records, [*left_out, *repeated]


def runs_source(folders: list[Path]) -> tuple[dict[str, Any] | None, list[str]]:
    """Finished runs as a table: a row for each combination of the settings that differ, seeds apart."""
    jobs, repeated = find_jobs(folders)
    if not jobs:
        return None, repeated
    rows: dict[tuple[str, ...], list[Path]] = {}
    for job in jobs:
        words = tuple(word for word in job.overrides if not word.startswith("seed="))
        rows.setdefault(words, []).append(job.path)
    names = {" ".join(words) or "all runs": paths for words, paths in rows.items()}
    return runs_record(names, metric_names(jobs), dict(zip(names, rows, strict=True))), repeated


def runs_record(
    rows: dict[str, list[Path]], metrics: list[str], words: dict[str, tuple[str, ...]] | None = None
) -> dict[str, Any]:
    """The record of finished runs: {row: its runs, which differ in their seeds}, and the words of each row."""
    shared, records = Shared(), []
    for name, paths in rows.items():
        seeds = {read_config(path)["seed"]: path for path in paths}
        row = Row(name=name, words=(words or {}).get(name, ()), published={}, source="", minutes=None)
        records.append(row_record(row, seeds, metrics, shared))
    return {
        "table": "runs", "preset": "paper", "title": "Finished runs", "note": "", "extra": [],
        "metrics": {metric: metric for metric in metrics}, "claims": [], "rows": records,
        "environments": shared.environments, "protocols": shared.protocols,
        "views": views_as_png(next(iter(rows.values()))[0]),
    }  # fmt: skip
