"""The record of a table: what its runs were and what they measured, compact enough to be committed.

Every printed figure is computed from the record alone (`contrastive.report.page`), so that it can be recomputed from
the repository without the runs; so are the page's curves, views and histograms.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from contrastive.report.curves import logged_name, thin, thinned_curves
from contrastive.report.events import similarity_histograms, views_as_png
from contrastive.report.rows import Row
from contrastive.report.table import Curves, Table, folder_name, row_folder
from contrastive.run.config import read_config
from contrastive.run.environment_file import read_environment
from contrastive.run.identity import is_identity
from contrastive.run.result import read_result

ENVIRONMENT = ("commit", "dirty", "device", "precision", "threads", "python", "torch")
SETTINGS = ("epochs", "batch_size", "n_views")


@dataclass
class Shared:
    """What most runs of a record have in common, listed once; a run refers to it by number."""

    environments: list[dict[str, Any]] = field(default_factory=list)
    protocols: list[dict[str, str]] = field(default_factory=list)


def table_record(table: Table, base: Path, *, leave_out: Collection[Path] = ()) -> dict[str, Any]:
    """The record of the table's finished runs under `base`, plain containers for JSON.

    Args:
        leave_out: directories of runs that are not the table's, such as those with other settings.
    """
    shared = Shared()
    paths = {row.name: finished_runs(row, table, base) for row in table.rows}
    paths = {name: {i: path for i, path in runs.items() if path not in leave_out} for name, runs in paths.items()}
    rows = [
        row_record(row, paths[row.name], list(table.metrics), shared, curves=table.curves.get(row.name))
        for row in table.rows
    ]
    return {
        "table": table.name,
        "preset": table.preset,
        "title": table.title,
        "note": table.note,
        "extra": list(table.changes),
        "metrics": table.metrics,
        "claims": [asdict(claim) for claim in table.claims],
        "rows": rows,
        "environments": shared.environments,
        "protocols": shared.protocols,
        "views": views_as_png(next((path for runs in paths.values() for path in runs.values()), base)),
    }


def finished_runs(row: Row, table: Table, base: Path) -> dict[int, Path]:
    """{seed: directory} of the row's finished runs."""
    paths = {seed: row_folder(row, base) / f"seed={seed}" for seed in table.seeds} if row.words else {}
    return {seed: path for seed, path in paths.items() if read_result(path) is not None}


def row_record(
    row: Row, paths: dict[int, Path], metrics: list[str], shared: Shared, *, curves: Curves | None = None
) -> dict[str, Any]:
    """One row with its runs; the histograms of similarities are those of its first run, `curves` the published ones."""
    runs = [run_record(path, seed, metrics, shared) for seed, path in paths.items()]
    biased = [path for path, run in zip(paths.values(), runs, strict=True) if "similarity" in run["audit"]]
    return {
        "name": row.name,
        "folder": folder_name(row.name),
        "point": row.point,
        "overrides": list(row.words),
        "published": row.published,
        "source": row.source,
        "runs": runs,
        "similarities": similarity_histograms(biased[0]) if biased else {},
        "published_curves": {
            logged_name(metric): thin(list(enumerate(curve["values"], start=curve["from"])))
            for metric, curve in (curves or {}).items()
        },
    }


def run_record(path: Path, seed: int, metrics: list[str], shared: Shared) -> dict[str, Any]:
    """One finished run; its environment and protocol join the shared lists unless they are there."""
    result = read_result(path)
    assert result is not None  # callers choose finished runs
    environment = read_environment(path)
    return {
        "seed": seed,
        "environment": _number({key: environment.get(key) for key in ENVIRONMENT}, shared.environments),
        "protocol": _number(result["protocol"], shared.protocols),
        "data": environment["data"][:16],
        "date": result["time"].get("finished", "")[:10],
        "minutes": round(result["time"]["seconds"] / 60, 2),
        "settings": settings_in_words(read_config(path)),
        **{key: _rounded(result[key]) for key in ("test", "val", "audit")},
        "curves": thinned_curves(path, metrics),
    }


def settings_in_words(config: dict[str, Any]) -> dict[str, str]:
    """What a heading tells of a run's configuration: {setting: value in words}."""
    words = {key: component_in_words(config[key], key) for key in ("dataset", "encoder", "optimizer")}
    return words | {key: str(config[key]) for key in SETTINGS}


def component_in_words(node: dict[str, Any], key: str) -> str:
    """A component as `ResNet depth=18 width=64`; settings that change no result are left out."""
    options = [
        f"{name}={value}"
        for name, value in node.items()
        if not name.startswith("_") and not isinstance(value, dict | list) and is_identity(f"{key}.{name}")
        if value is not None
    ]
    return " ".join([str(node["_target_"]).rpartition(".")[2], *options])


def _number(item: dict[str, Any], items: list[dict[str, Any]]) -> int:
    if item not in items:
        items.append(item)
    return items.index(item)


def _rounded(value: Any) -> Any:
    """Numbers to four decimals: tables print two."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return round(value, 4) if isinstance(value, float) else value
