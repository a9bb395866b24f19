"""The kept records of tables: whether their verdicts are what they give, and new words for them from their YAML."""

import json
import sys
from pathlib import Path
from typing import Any

from contrastive.files import write_text
from contrastive.report.record import as_json
from contrastive.study.record import read_compared
from contrastive.study.render.files import RECORD, record_files
from tables.claims import judge_claims
from tables.spec import STUDIES, Table, read_table, table_paths


def study_records() -> dict[str, Path]:
    """{study: its record}, also of those in studies/archive."""
    found = record_files(STUDIES)
    return {path.parent.name if path.name.startswith(RECORD) else path.name.partition(".")[0]: path for path in found}


def check_tables(paths: list[Path]) -> tuple[int, list[str]]:
    """Recompute every table below the folders, or those that are named, from their records.

    The verdicts must be those of its runs. Comparisons and other JSON files are left out.

    Returns:
        the number of tables, and a sentence for each that differs.
    """
    kept = {path: record for place in paths for path in record_files(place) if (record := table_of(path)) is not None}
    wrong = [path for path, own in kept.items() if own.get("verdicts") != json.loads(json.dumps(judge_claims(own)))]
    return len(kept), [f"{path}: the verdicts are not those of its runs: try git checkout {path}" for path in wrong]


def table_of(path: Path) -> dict[str, Any] | None:
    """The record of a table; None if the file holds something else."""
    record = read_compared(path)
    return None if record is None or {"comparison", "datasets"}.intersection(record) else record


def reword(paths: list[Path]) -> int:
    """Update the words of kept tables from their YAML: title, note, headings, sources and claims. Runs and metrics do
    not change; verdicts are computed again. Compressed ones are left as they are: `xz -d` unpacks one.

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
        new = reworded(record, table)
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
