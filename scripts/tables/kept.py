"""The kept records of tables: whether their pages are what they give, and new words for them from their YAML."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from contrastive.files import write_text
from contrastive.report.facts import protocols
from contrastive.report.record import as_json
from contrastive.study.record import read_compared
from contrastive.study.render.files import RECORD, markdown_beside, record_files
from tables.claims import judge_claims
from tables.page import page, title
from tables.spec import STUDIES, Table, read_table, table_paths


def study_records() -> dict[str, Path]:
    """{study: its record}, also of those in studies/archive."""
    found = record_files(STUDIES)
    return {path.parent.name if path.name == RECORD else path.name.partition(".")[0]: path for path in found}


def check_tables(paths: list[Path]) -> tuple[int, list[str]]:
    """Recompute every table below the folders, or those that are named, from their records.

    The page must stand, whole, in the Markdown beside it, which may say more around it; the verdicts must be those of
    its runs. Comparisons and other JSON files are left out.

    Returns:
        the number of tables, and a sentence for each that differs.
    """
    kept = {path: record for place in paths for path in record_files(place) if (record := table_of(path)) is not None}
    return len(kept), [said for path, record in kept.items() for said in _check(path, record)]


def table_of(path: Path) -> dict[str, Any] | None:
    """The record of a table; None if the file holds something else."""
    record = read_compared(path)
    return None if record is None or {"comparison", "datasets"}.intersection(record) else record


def _check(path: Path, record: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a record and with the page beside it; one in the archive has none."""
    is_archived, markdown = path.suffix == ".xz", markdown_beside(path)
    remedy = f"try git checkout {path}" if is_archived else f"try make reproduce-table TABLE={record['table']}"
    if record.get("verdicts") != json.loads(json.dumps(judge_claims(record))):
        yield f"{path}: the verdicts are not those of its runs: {remedy}"
    if not is_archived and not (markdown.exists() and page(record) in markdown.read_text()):
        yield f"{markdown} is not what {path.name} gives: {remedy}"


def reword(paths: list[Path]) -> int:
    """Update the words of kept tables from their YAML: title, note, headings, sources and claims. Runs and metrics do
    not change; verdicts and pages are computed again, and the text around a page is kept.

    Returns:
        1 if the rows of a table are no longer those of its YAML, else 0.
    """
    failed, yamls = 0, table_paths()
    for path in (path for place in paths for path in record_files(place) if path.suffix != ".xz"):
        if (record := table_of(path)) is None:
            continue
        table = read_table(yamls[record["table"]], preset=record["preset"], extra=tuple(record["extra"]))
        if [row["name"] for row in record["rows"]] != [row.name for row in table.rows]:
            failed = 1
            print(f"{path}: the YAML has other rows", file=sys.stderr)
            continue
        new, markdown = reworded(record, table), markdown_beside(path)
        words, last = markdown.read_text(), protocols(record)
        start, end = words.index(title(record)), words.index(last) + len(last)
        write_text(markdown, words[:start] + page(new) + words[end:])
        write_text(path, as_json({**new, "verdicts": judge_claims(new)}))
    return failed


def reworded(record: dict[str, Any], table: Table) -> dict[str, Any]:
    """The record with the words of the table, which has the same rows."""
    rows = [
        {**old, "published": row.published, "source": row.source}
        for old, row in zip(record["rows"], table.rows, strict=True)
    ]
    words = {"title": table.title, "note": table.note, "metrics": table.metrics, "claims": list(table.claims)}
    return {**record, **words, "rows": rows}
