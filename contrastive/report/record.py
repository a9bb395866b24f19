"""The record of a table: what its runs were and what they measured, compact enough to be committed.

Every printed figure is computed from the record alone (`contrastive.report.page`), so that it can be recomputed from
the repository without the runs.
"""

import json
from pathlib import Path
from typing import Any

import yaml

from contrastive.report.rows import Row
from contrastive.report.table import Table, row_folder
from contrastive.run.identity import is_identity

ENVIRONMENT = ("commit", "dirty", "device", "precision", "threads", "python", "torch")
SETTINGS = ("epochs", "batch_size", "n_views")


def table_record(table: Table, base: Path) -> dict[str, Any]:
    """The record of the table's finished runs under `base`, plain containers for JSON.

    Environments and protocols, which most runs share, are listed once; a run refers to them by number.
    """
    environments: list[dict[str, Any]] = []
    protocols: list[dict[str, str]] = []
    return {
        "table": table.name,
        "preset": table.preset,
        "title": table.title,
        "note": table.note,
        "extra": list(table.changes),
        "metrics": table.metrics,
        "rows": [_row_record(row, table, base, environments, protocols) for row in table.rows],
        "environments": environments,
        "protocols": protocols,
    }


def _row_record(
    row: Row, table: Table, base: Path, environments: list[dict[str, Any]], protocols: list[dict[str, str]]
) -> dict[str, Any]:
    paths = [(seed, row_folder(row, base) / f"seed={seed}") for seed in table.seeds] if row.words else []
    runs = [run_record(path, seed, environments, protocols) for seed, path in paths if (path / "result.json").exists()]
    return {
        "name": row.name,
        "overrides": list(row.words),
        "published": row.published,
        "source": row.source,
        "runs": runs,
    }


def run_record(
    path: Path, seed: int, environments: list[dict[str, Any]], protocols: list[dict[str, str]]
) -> dict[str, Any]:
    """One finished run; its environment and protocol join the lists unless they are there."""
    result = json.loads((path / "result.json").read_text())
    environment = json.loads((path / "environment.json").read_text())
    config = yaml.safe_load((path / "config.yaml").read_text())
    return {
        "seed": seed,
        "environment": _number({key: environment.get(key) for key in ENVIRONMENT}, environments),
        "protocol": _number(result["protocol"], protocols),
        "data": environment["data"][:16],
        "date": result["time"].get("finished", "")[:10],
        "minutes": round(result["time"]["seconds"] / 60, 2),
        "settings": settings_in_words(config),
        **{key: _rounded(result[key]) for key in ("test", "val", "audit")},
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
