"""Read what a page shows: records of tables, and for each dataset a record made of any finished runs."""

from pathlib import Path
from typing import Any

from contrastive.errors import ConfigError
from contrastive.report.runs import Runs, read_runs
from contrastive.run.files import read_config
from contrastive.tables.page import read_table_json
from contrastive.tables.record import Shared, row_record, views_as_png
from contrastive.tables.spec import Row


def read_sources(paths: list[Path]) -> tuple[list[dict[str, Any]], list[str]]:
    """The tables among the paths in their order, then everything else as tables of runs.

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
    if folders:
        runs = read_runs(folders)
        tables += [section_record(name, section) for name, section in runs.sections.items()]
        left_out += runs.notes
    if not tables:
        raise ConfigError(f"no table or finished run in {', '.join(map(str, paths))}: try make reproduce-table")
    return tables, left_out


def section_record(name: str, section: Runs) -> dict[str, Any]:
    """The runs of a dataset as a table: its figures are those of all runs of a seed, and of later evaluations."""
    section = section.sorted_by_name()
    record = runs_record(
        {row.name: [runs[0].path for runs in row.runs.values()] for row in section.rows}, section.metrics()
    )
    settings = {
        key: {str(row.settings.get(key)) for row in section.rows} for row in section.rows for key in row.settings
    }
    for row, entry in zip(section.rows, record["rows"], strict=True):
        entry["overrides"] = [f"{key}={value}" for key, value in row.settings.items() if len(settings[key]) > 1]
        for split in ("test", "val"):
            figures = {metric: section.values(row, metric, split) for metric in section.metrics(split)}
            for run in entry["runs"]:
                seed = run["seed"]
                run[split] = {metric: round(own[seed], 4) for metric, own in figures.items() if seed in own}
    return {**record, "title": f"Finished runs: {name}"}


def runs_record(rows: dict[str, list[Path]], metrics: list[str]) -> dict[str, Any]:
    """The record of finished runs: {row: its runs, which differ in their seeds}."""
    shared, records = Shared(), []
    for name, paths in rows.items():
        seeds = {read_config(path)["seed"]: path for path in paths}
        row = Row(name=name, overrides=(), published={}, source="", minutes=None)
        records.append(row_record(row, seeds, metrics, shared))
    return {
        "table": "runs", "preset": "paper", "title": "Finished runs", "note": "", "extra": [],
        "metrics": {metric: metric for metric in metrics}, "claims": [], "rows": records,
        "environments": shared.environments, "protocols": shared.protocols,
        "views": views_as_png(next(iter(rows.values()))[0]),
    }  # fmt: skip
