"""Pages of a table in every format, and the comparison of committed pages with their records."""

import json
import re
from pathlib import Path
from typing import Any

from contrastive.atomic import write_text
from contrastive.errors import ConfigError
from contrastive.report.formats import as_csv, as_latex, figures
from contrastive.report.page import page
from contrastive.report.verdicts import judge_claims


def write_pages(record: dict[str, Any], base: Path) -> str:
    """Write base.md, .csv, .tex and .json; returns the Markdown."""
    text = page(record)
    content = {
        ".md": f"{text}\n",
        ".csv": as_csv(record),
        ".tex": f"{as_latex(record)}\n",
        ".json": as_json({**record, **computed(record)}),
    }
    for suffix, body in content.items():
        write_text(base.with_name(base.name + suffix), body)
    return text


def computed(record: dict[str, Any]) -> dict[str, Any]:
    """What the JSON holds for other programs beside the record that it follows from."""
    return {"verdicts": judge_claims(record), "figures": figures(record)}


def as_json(record: dict[str, Any]) -> str:
    """Indented JSON with every list of numbers, and every curve, on one line."""
    text = json.dumps(record, indent=1, ensure_ascii=False)
    text = re.sub(r"\[[\d\s.,eE+-]+\]", lambda numbers: " ".join(numbers[0].split()), text)
    return re.sub(r'\{\s+("epoch": \[[^\]]*\]),\s+("value": \[[^\]]*\])\s+\}', r"{\1, \2}", text) + "\n"


def read_table_json(path: Path) -> dict[str, Any] | None:
    """The record of a table; None if the file holds something else.

    Raises:
        ConfigError: the record lacks what is printed today.
    """
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read ({error}): try git checkout {path}") from error
    if not (isinstance(record, dict) and {"table", "rows", "metrics"} <= record.keys()):
        return None
    if not {"claims", "views"} <= record.keys():
        raise ConfigError(
            f"{path} was written by an older version: try make reproduce-table TABLE={record['table']}, which runs "
            "nothing again"
        )
    return record


def check_folder(folder: Path) -> tuple[int, list[str]]:
    """Recompute every table of a folder from its JSON.

    The page must stand, whole, in the Markdown of the same name, which may say more around it; the figures and verdicts
    in the JSON must be those of its runs. JSON files that are no table are left out.

    Returns:
        the number of tables, and a sentence for each that differs.
    """
    checked, wrong = 0, []
    for path in sorted(folder.glob("*.json")):
        record = read_table_json(path)
        if record is None:
            continue
        checked += 1
        remedy = f"try make reproduce-table TABLE={record['table']}"
        for name, value in json.loads(json.dumps(computed(record))).items():
            if record.get(name) != value:
                wrong.append(f"{path}: the {name} are not those of its runs: {remedy}")
        markdown = path.with_suffix(".md")
        if not markdown.exists() or page(record) not in markdown.read_text():
            wrong.append(f"{markdown} is not what {path.name} gives: {remedy}")
    return checked, wrong
