"""Update the text of committed tables from their YAML: title, note, headings, sources and claims.

    python scripts/reword_tables.py [studies]

Runs and metrics do not change. Verdicts and pages are computed again. The page in the Markdown file beside each JSON is
replaced, and the text around it is kept.
"""

import sys
from pathlib import Path
from typing import Any

from contrastive.files import write_text
from contrastive.study.compare.outcome import judged_again
from contrastive.study.judge import judge_claims
from contrastive.study.record import read_record
from contrastive.study.render.files import as_json, markdown_beside, table_files
from contrastive.study.render.markdown import heading, page, protocols
from contrastive.study.spec import STUDIES, Table, read_table, table_paths


def main(folder: Path) -> int:
    """Reword every table of a folder; returns 1 if the rows of one are no longer those of its YAML, else 0."""
    failed, yamls = 0, table_paths()
    for path in table_files(folder):
        record = None if path.suffix == ".xz" else read_record(path)  # what is archived stays as it is
        if record is None or "rows" not in record:
            continue
        if "comparison" in record:  # which has no YAML
            new = {**record, "comparison": {**record["comparison"], "judged": judged_again(record)}}
        else:
            table = read_table(yamls[record["table"]], preset=record["preset"], extra=tuple(record["extra"]))
            if reason := misfit(record, table):
                failed = 1
                print(f"{path}: {reason}", file=sys.stderr)
                continue
            new = reworded(record, table)
        markdown = markdown_beside(path)
        words = markdown.read_text()
        start, end = words.index(heading(record)), words.index(protocols(record)) + len(protocols(record))
        write_text(markdown, words[:start] + page(new) + words[end:])
        write_text(path, as_json({**new, "verdicts": judge_claims(new)}))
        print(f"{path}: {len(new['claims'])} claims")
    return failed


def misfit(record: dict[str, Any], table: Table) -> str:
    """Why the YAML's words do not fit a record; empty if they do."""
    if [row["name"] for row in record["rows"]] != [row.name for row in table.rows]:
        return "the YAML has other rows"
    if lacking := table.metrics.keys() - record["metrics"].keys():
        return f"its runs have no {', '.join(sorted(lacking))}"
    return ""


def reworded(record: dict[str, Any], table: Table) -> dict[str, Any]:
    """The record with the words of the table, which has the same rows."""
    rows = [
        {**old, "published": row.published, "source": row.source}
        for old, row in zip(record["rows"], table.rows, strict=True)
    ]
    return {
        **record,
        "title": table.title,
        "note": table.note,
        "metrics": table.metrics,
        "claims": list(table.claims),
        "rows": rows,
    }


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else STUDIES)))
