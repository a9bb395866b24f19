"""A paper's table from run directories: our mean ± std beside the published figure."""

import json
import re
from pathlib import Path
from typing import Any

from contrastive.report.sweep import format_grid, spread


def look_up(result: dict[str, Any], metric: str) -> float | None:
    """A dotted path into a result, or a name under its `test`; None when the run has no such figure."""
    node: Any = result
    for key in (metric if "." in metric else f"test.{metric}").split("."):
        node = node.get(key) if isinstance(node, dict) else None
    return None if node is None else float(node)


def row_folder(row: dict[str, Any], base: Path) -> Path:
    """Where a row's runs are: base/<its name>/seed=N."""
    return base / re.sub(r"[^\w.=-]+", "-", row["name"]).strip("-").lower()


def paper_table(spec: dict[str, Any], base: Path, extra: list[str] | None = None) -> str:
    """Markdown: a row for each of `spec` (configs/table/*.yaml), from the result.json files under `base`.

    Columns are the spec's metrics and, when other evaluators were chosen, every other test metric of the runs. A row
    without results shows `-`; a figure that nobody published is left empty.

    Args:
        extra: words that were given to every row beyond the table's own; the heading states them.
    """
    results = {row["name"]: _results(row, base, spec["seeds"]) for row in spec["rows"]}
    others = dict.fromkeys(key for runs in results.values() for run in runs for key in run["test"])
    chosen = any(word.startswith("evaluator=") for word in extra or [])
    metrics = [*spec["metrics"], *(key for key in others if chosen and key not in spec["metrics"])]
    published = [m for m in metrics if any(m in row.get("published", {}) for row in spec["rows"])]
    sources = any(row.get("source") for row in spec["rows"])
    rows = [["method", *metrics, *(f"published {m}" for m in published), *(["source"] if sources else [])]]
    for row in spec["rows"]:
        ours = [
            spread([value for run in results[row["name"]] if (value := look_up(run, metric)) is not None])
            for metric in metrics
        ]
        theirs = [str(row.get("published", {}).get(metric, "")) for metric in published]
        rows.append([row["name"], *ours, *theirs, *([row.get("source", "")] if sources else [])])
    changed = f" Settings changed in every row: {' '.join(extra)}." if extra else ""
    return "\n\n".join(
        [
            f"{spec['title']}: test split, last epoch, mean ± std (n seeds), accuracies in percent.{changed}",
            spec["note"],
            format_grid(rows),
        ]
    )


def _results(row: dict[str, Any], base: Path, seeds: list[int]) -> list[dict[str, Any]]:
    paths = [row_folder(row, base) / f"seed={seed}" / "result.json" for seed in seeds]
    return [json.loads(path.read_text()) for path in paths if path.exists()]
