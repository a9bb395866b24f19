"""Pages of a table in every format, and the comparison of committed pages with their records."""

import json
from pathlib import Path
from typing import Any

from contrastive.atomic import write_text
from contrastive.report.formats import as_csv, as_latex, figures
from contrastive.report.page import page


def write_pages(record: dict[str, Any], base: Path) -> str:
    """Write base.md, .csv, .tex and .json; returns the Markdown."""
    text = page(record)
    content = {
        ".md": f"{text}\n",
        ".csv": as_csv(record),
        ".tex": f"{as_latex(record)}\n",
        ".json": f"{json.dumps({**record, 'figures': figures(record)}, indent=1, ensure_ascii=False)}\n",
    }
    for suffix, body in content.items():
        write_text(base.with_name(base.name + suffix), body)
    return text


def check_folder(folder: Path) -> tuple[int, list[str]]:
    """Recompute every table of a folder from its JSON.

    The page must stand, whole, in the Markdown of the same name, which may say more around it; the figures in the JSON
    must be those of its runs. JSON files that are no table are left out.

    Returns:
        the number of tables, and a sentence for each that differs.
    """
    checked, wrong = 0, []
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text())
        if not (isinstance(record, dict) and {"table", "rows", "metrics"} <= record.keys()):
            continue
        checked += 1
        markdown = path.with_suffix(".md")
        if record.get("figures") != json.loads(json.dumps(figures(record))):
            wrong.append(
                f"{path}: the figures are not those of its runs: try make reproduce-table TABLE={record['table']}"
            )
        if not markdown.exists() or page(record) not in markdown.read_text():
            wrong.append(f"{markdown} is not what {path.name} gives: try make reproduce-table TABLE={record['table']}")
    return checked, wrong
