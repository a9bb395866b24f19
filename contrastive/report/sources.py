"""Read what a page shows: records of tables, and a record made of any finished runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrastive.errors import ConfigError
from contrastive.report.runs import Runs, read_runs
from contrastive.run.files import read_config
from contrastive.tables.page import read_table_json
from contrastive.tables.record import Shared, row_record, views_as_png
from contrastive.tables.spec import Row


@dataclass(frozen=True)
class Source:
    """A record, and the first run of each row where the runs are at hand: {row: directory}."""

    record: dict[str, Any]
    runs: dict[str, Path]


def read_sources(paths: list[Path]) -> tuple[list[Source], list[str]]:
    """The tables among the paths in their order, then everything else as one table of runs.

    Args:
        paths: a table's JSON, the folder of its runs, or any folder with finished runs.

    Returns:
        the sources, and a sentence for each path or run that is left out.

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
            tables.append(Source(record, first_runs(record, file.with_suffix(""))))
        else:
            left_out.append(f"{path} holds no table and is left out")
    runs, repeated = runs_sources(folders) if folders else ([], [])
    sources = [*tables, *runs]
    if not sources:
        raise ConfigError(f"no table or finished run in {', '.join(map(str, paths))}: try make reproduce-table")
    return sources, [*left_out, *repeated]


def first_runs(record: dict[str, Any], base: Path) -> dict[str, Path]:
    """{row: directory of its first run} of the rows whose runs still lie beside the table's JSON."""
    runs = {
        row["name"]: base / row["folder"] / f"seed={row['runs'][0]['seed']}" for row in record["rows"] if row["runs"]
    }
    return {name: path for name, path in runs.items() if (path / "result.json").exists()}


def runs_sources(folders: list[Path]) -> tuple[list[Source], list[str]]:
    """Finished runs as a table for each dataset: a row for runs that differ in nothing but the seed."""
    runs = read_runs(folders)
    return [_section_source(name, section) for name, section in runs.sections.items()], runs.notes


def _section_source(name: str, section: Runs) -> Source:
    """The record of a section; its figures are those of every run of a seed, and of later evaluations."""
    metrics = section.metrics()
    paths = {row.name: [runs[0].path for runs in row.runs.values()] for row in section.rows}
    record = runs_record(paths, metrics)
    differing = {key for row in section.rows for key in row.settings}
    differing = {key for key in differing if len({str(row.settings.get(key)) for row in section.rows}) > 1}
    for row, entry in zip(section.rows, record["rows"], strict=True):
        entry["overrides"] = [f"{key}={row.settings[key]}" for key in sorted(differing & row.settings.keys())]
        for run in entry["runs"]:
            for split in ("test", "val"):
                figures = {metric: section.values(row, metric, split) for metric in section.metrics(split)}
                run[split] = {m: round(own[run["seed"]], 4) for m, own in figures.items() if run["seed"] in own}
    record["title"] = f"Finished runs: {name}"
    return Source(record, {name: own[0] for name, own in paths.items()})


def runs_record(rows: dict[str, list[Path]], metrics: list[str]) -> dict[str, Any]:
    """The record of finished runs: {row: its runs, which differ in their seeds}."""
    shared, records = Shared(), []
    for name, paths in rows.items():
        seeds = {read_config(path)["seed"]: path for path in paths}
        row = Row(name=name, words=(), published={}, source="", minutes=None)
        records.append(row_record(row, seeds, metrics, shared))
    return {
        "table": "runs", "preset": "paper", "title": "Finished runs", "note": "", "extra": [],
        "metrics": {metric: metric for metric in metrics}, "claims": [], "rows": records,
        "environments": shared.environments, "protocols": shared.protocols,
        "views": views_as_png(next(iter(rows.values()))[0]),
    }  # fmt: skip


def named_runs(words: list[str]) -> dict[str, list[Path]]:
    """`NAME=RUN` or `RUN` as {name: runs}; a name given several times collects seeds. Paths may contain `=`.

    Raises:
        ConfigError: a word is neither.
    """
    rows: dict[str, list[Path]] = {}
    for word in words:
        splits = [(word[:i], Path(word[i + 1 :])) for i, letter in enumerate(word) if letter == "="]
        candidates = [("/".join(Path(word).parts[-3:-1]) or word, Path(word)), *splits]
        name, path = next(((n, p) for n, p in candidates if (p / "result.json").exists()), (None, None))
        if name is None or path is None:
            raise ConfigError(f"{word} is no finished run: try NAME=RUN with a directory that holds result.json")
        rows.setdefault(name, []).append(path)
    return rows
