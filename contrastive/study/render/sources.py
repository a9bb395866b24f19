"""Read what a page shows: records of tables, and for each dataset a record made of any finished runs."""

from pathlib import Path
from typing import Any

from contrastive.errors import ConfigError
from contrastive.run.files import RunState, run_state
from contrastive.study.collect import Shared, row_record, views_as_png
from contrastive.study.frame import Frame, read_frame
from contrastive.study.record import read_datasets, read_record
from contrastive.study.spec import Row


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
            raise ConfigError(f"{path} does not exist: try python -m contrastive report page OUT.html outputs")
        file = path if path.is_file() else path.parent / f"{path.name}.json"
        if not file.exists():
            folders.append(path)
        elif (record := read_record(file) or read_datasets(file)) is not None:
            tables.append(record)
        else:
            left_out.append(f"{path} holds no table and is left out")
    if folders:
        frame = read_frame(folders)
        chosen = frame.chosen(metrics) if metrics else []
        for section in frame.sections.values():
            tables.append(section_record(section, [m for m in chosen if m in section.metrics] or section.chosen(None)))
        left_out += frame.notes
    if not tables:
        raise ConfigError(f"no table or finished run in {', '.join(map(str, paths))}: try make reproduce-table")
    return tables, left_out


def section_record(section: Frame, metrics: list[str]) -> dict[str, Any]:
    """The runs of a dataset as a table: its metrics are those of all runs of a seed, and of later evaluations."""
    section = section.by_name()
    shown, shared = section.shown(), section.shared()
    states = {name: {paths[0]: run_state(paths[0]) for paths in own["paths"]} for name, own in section.rows.items()}
    record = runs_record(states, metrics)
    for (name, own), entry in zip(section.rows.items(), record["rows"], strict=True):
        settings = own["settings"].iloc[0]
        entry["name"] = shown[name]
        entry["overrides"] = [f"{key}={settings[key]}" for key in section.differing if key in settings]
        for run, line in zip(entry["runs"], own.to_dict("records"), strict=True):
            known = {metric: round(line[metric], 4) for metric in section.metrics if line[metric] == line[metric]}
            run["test"] = {metric: value for metric, value in known.items() if metric in metrics}
            run["val"] = {m.removeprefix("val/"): value for m, value in known.items() if m.startswith("val/")}
    note = f"In every row: {' '.join(shared)}." if shared else ""
    return {**record, "title": f"Finished runs: {section.table['dataset'].iloc[0]}", "note": note}


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
