"""Read what a page shows: records of tables, and for each dataset a record made of any finished runs."""

from pathlib import Path
from typing import Any

from contrastive.errors import ConfigError
from contrastive.report.runs import Runs, read_runs
from contrastive.run.files import RunState
from contrastive.tables.page import read_table_json
from contrastive.tables.record import Shared, row_record, views_as_png
from contrastive.tables.spec import Row


def read_sources(paths: list[Path], metrics: list[str] | None = None) -> tuple[list[dict[str, Any]], list[str]]:
    """The tables among the paths in their order, then everything else as tables of runs.

    Args:
        paths: a table's JSON, the folder of its runs, or any folder with finished runs.
        metrics: the columns of finished runs; None = the usual ones. A table has its own.

    Returns:
        the records, and a sentence for each path or run that is left out.

    Raises:
        ConfigError: a path does not exist, no run has a metric, or nothing is left to show.
    """
    tables, folders, left_out = [], [], []
    for path in paths:
        if not path.exists():
            raise ConfigError(f"{path} does not exist: try python -m contrastive.report page OUT.html outputs")
        file = path if path.is_file() else path.parent / f"{path.name}.json"
        if not file.exists():
            folders.append(path)
        elif (record := read_table_json(file)) is not None:
            tables.append(record)
        else:
            left_out.append(f"{path} holds no table and is left out")
    if folders:
        runs = read_runs(folders)
        chosen = runs.columns(metrics) if metrics else None
        tables += [section_record(name, section, chosen) for name, section in runs.sections.items()]
        left_out += runs.notes
    if not tables:
        raise ConfigError(f"no table or finished run in {', '.join(map(str, paths))}: try make reproduce-table")
    return tables, left_out


def section_record(name: str, section: Runs, metrics: list[str] | None = None) -> dict[str, Any]:
    """The runs of a dataset as a table: its figures are those of all runs of a seed, and of later evaluations."""
    section = section.sorted_by_name()
    rows = section.rows
    record = runs_record(
        {row.name: {run[0].path: run[0].files for run in row.runs.values()} for row in rows},
        metrics or section.columns(),
    )
    for row, entry in zip(rows, record["rows"], strict=True):
        entry["overrides"] = [f"{key}={row.settings[key]}" for key in section.differing if key in row.settings]
        for run in entry["runs"]:
            run |= {"test": {}, "val": {}}
            for (split, metric), values in row.figures.items():
                if run["seed"] in values:
                    run[split][metric] = round(values[run["seed"]], 4)
    return {**record, "title": f"Finished runs: {name}"}


def runs_record(rows: dict[str, dict[Path, RunState]], metrics: list[str]) -> dict[str, Any]:
    """The record of finished runs: {row: its runs, which differ in their seeds}."""
    shared = Shared()
    first = next(iter(next(iter(rows.values()))))
    return {
        "table": "runs", "preset": "paper", "title": "Finished runs", "note": "", "extra": [],
        "metrics": {metric: metric for metric in metrics}, "claims": [],
        "rows": [row_record(Row(name=name), runs, metrics, shared) for name, runs in rows.items()],
        "environments": shared.environments, "protocols": shared.protocols, "views": views_as_png(first),
    }  # fmt: skip
