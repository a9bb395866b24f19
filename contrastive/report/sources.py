"""Read what a page shows: records of tables, and a record made of any finished runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrastive.errors import ConfigError
from contrastive.report.jobs import find_jobs
from contrastive.report.sweep import metric_names
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
    runs, repeated = runs_source(folders) if folders else (None, [])
    sources = [*tables, *([runs] if runs else [])]
    if not sources:
        raise ConfigError(f"no table or finished run in {', '.join(map(str, paths))}: try make reproduce-table")
    return sources, [*left_out, *repeated]


def first_runs(record: dict[str, Any], base: Path) -> dict[str, Path]:
    """{row: directory of its first run} of the rows whose runs still lie beside the table's JSON."""
    runs = {
        row["name"]: base / row["folder"] / f"seed={row['runs'][0]['seed']}" for row in record["rows"] if row["runs"]
    }
    return {name: path for name, path in runs.items() if (path / "result.json").exists()}


def runs_source(folders: list[Path]) -> tuple[Source | None, list[str]]:
    """Finished runs as a table: a row for each combination of the settings that differ, seeds apart."""
    jobs, repeated = find_jobs(folders)
    if not jobs:
        return None, repeated
    rows: dict[tuple[str, ...], list[Path]] = {}
    for job in jobs:
        words = tuple(word for word in job.overrides if not word.startswith("seed="))
        rows.setdefault(words, []).append(job.path)
    names = {" ".join(words) or "all runs": paths for words, paths in rows.items()}
    record = runs_record(names, metric_names(jobs), dict(zip(names, rows, strict=True)))
    return Source(record, {name: paths[0] for name, paths in names.items()}), repeated


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
