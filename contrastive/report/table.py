"""A paper's table from run directories: our mean ± std beside the published figure."""

import json
import re
from pathlib import Path
from typing import Any

from contrastive.report.sweep import grid, spread

TITLES = {
    "knn_top1": "kNN top-1",
    "knn_top5": "kNN top-5",
    "linear_top1": "linear top-1",
    "linear_top5": "linear top-5",
    "few_shot_top1": "few-shot top-1",
    "audit.reported.top1": "unbiased",
    "audit.reported.aligned_top1": "aligned",
    "audit.reported.conflicting_top1": "conflicting",
    "audit.bias_top1": "bias read from features",
}


def look_up(result: dict[str, Any], metric: str) -> float | None:
    """A dotted path into a result, or a name under its `test`; None where the run has no such figure."""
    node: Any = result
    for key in (metric if "." in metric else f"test.{metric}").split("."):
        node = node.get(key) if isinstance(node, dict) else None
    return node


def folder(row: dict[str, Any], base: Path) -> Path:
    """Where a row's runs lie: base/<its name>/seed=N."""
    return base / re.sub(r"[^\w.=-]+", "-", row["name"]).strip("-").lower()


def table(spec: dict[str, Any], base: Path) -> str:
    """Markdown: a row of `spec` (configs/table/*.yaml) each, from the result.json files under `base`.

    A row without results shows `-`; a figure nobody published is left empty.
    """
    metrics = spec["metrics"]
    published = [m for m in metrics if any(m in row.get("published", {}) for row in spec["rows"])]
    head = [
        "method",
        *(TITLES.get(m, m) for m in metrics),
        *(f"published {TITLES.get(m, m)}" for m in published),
        "source",
    ]
    rows = [head]
    for row in spec["rows"]:
        results = [
            json.loads((folder(row, base) / f"seed={seed}" / "result.json").read_text())
            for seed in spec["seeds"]
            if (folder(row, base) / f"seed={seed}" / "result.json").exists()
        ]
        ours = [spread([v for r in results if (v := look_up(r, m)) is not None]) for m in metrics]
        theirs = [str(row.get("published", {}).get(m, "")) for m in published]
        rows.append([row["name"], *ours, *theirs, row.get("source", "")])
    return "\n".join(
        [f"{spec['title']}: test accuracy in percent, last epoch, mean ± std (n seeds). {spec['note']}", "", grid(rows)]
    )
