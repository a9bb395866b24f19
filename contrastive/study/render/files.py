"""The files of a table, made from its record alone, and the check of committed ones."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from contrastive.files import write_text
from contrastive.study.compare.check import faults
from contrastive.study.compare.outcome import judged_again
from contrastive.study.frame import record_frame
from contrastive.study.judge import judge_claims
from contrastive.study.record import read_record
from contrastive.study.render import comparison
from contrastive.study.render.claims import claims_grid
from contrastive.study.render.effects import HEAD_OF_NUMBERS, claims_of, effects, effects_csv
from contrastive.study.render.latex import N_COLUMNS, escape, latex
from contrastive.study.render.markdown import best_figures, grid, minutes, page
from contrastive.study.render.text import as_csv
from contrastive.study.spec import STUDIES

RECORD = "record.json"  # of a study, in its folder


def write_pages(record: dict[str, Any], base: Path) -> str:
    """Write base.md and .json, of a table and of a comparison on one data set base.csv and .tex, too, and of the latter
    base-effects.csv; returns the Markdown."""
    text = page(record)
    content = {".md": f"{text}\n"}
    if "rows" in record:
        content |= {".csv": table_csv(record), ".tex": f"{table_latex(record)}\n"}
        content |= {"-effects.csv": effects_csv(record)} if claims_of(record) else {}
        record = {**record, "verdicts": judge_claims(record)}
    for suffix, body in {**content, ".json": as_json(record)}.items():
        write_text(base.with_name(base.name + suffix), body)
    return text


def table_csv(record: dict[str, Any]) -> str:
    """A line for each row: of each metric the mean, standard deviation and n, beside the published figures."""
    metrics = record_frame(record).metrics
    beside = {
        row["name"]: {f"published {metric}": row["published"].get(metric, "") for metric in metrics}
        | {"source": row["source"], "minutes": minutes(row), "overrides": " ".join(row["overrides"])}
        for row in record["rows"]
    }
    return as_csv(record_frame(record), metrics, beside)


def table_latex(record: dict[str, Any]) -> str:
    """The table with its first three metrics; the claims in one of their own, or the effects of a comparison and the
    paragraph for the methods section."""
    title = record["title"] + ("" if record["title"].endswith("?") else ":")
    tables = [_figures_latex(record, title)]
    if record.get("claims"):
        cells = [line[:4] for line in claims_grid(record)]
        caption = f"{title} effects with their 95 % intervals."
        tables.append(latex(cells, caption=caption, label=f"{record['table']}-claims"))
    if claims_of(record):
        cells = [line[: -len(HEAD_OF_NUMBERS)] for line in effects(record)]
        caption = f"{title} effects with simultaneous 95 % intervals."
        tables.append(latex(cells, caption=caption, label=f"{record['table']}-effects"))
    if "comparison" in record:
        tables.append(escape(comparison.protocol_text(record)))
    return "\n\n".join(tables)


def _figures_latex(record: dict[str, Any], title: str) -> str:
    """The table with its first three metrics."""
    metrics = record_frame(record).metrics[:N_COLUMNS]
    best = [cell for cell in best_figures(record) if cell[1] <= len(metrics)]
    caption = f"{title} mean ± std over seeds (n), accuracies in percent."
    return latex(grid(record, metrics), caption=caption, label=record["table"], best=best)


def as_json(record: dict[str, Any]) -> str:
    """Indented JSON with every list of numbers, and every curve, on one line."""
    text = json.dumps(record, indent=1, ensure_ascii=False)
    text = re.sub(r"\[[\d\s.,eE+-]+\]", lambda numbers: " ".join(numbers[0].split()), text)
    return re.sub(r'\{\s+("epoch": \[[^\]]*\]),\s+("value": \[[^\]]*\])\s+\}', r"{\1, \2}", text) + "\n"


def table_files(place: Path) -> list[Path]:
    """The JSON files of a folder, the records of studies and of their archive, or the one file that `place` is."""
    names = ("*.json", f"*/{RECORD}", "*.json.xz", "*/*.json.xz")
    return [place] if place.is_file() else sorted(path for name in names for path in place.glob(name))


def study_records() -> dict[str, Path]:
    """{study: its record}, also of those in studies/archive."""
    found = table_files(STUDIES)
    return {path.parent.name if path.name == RECORD else path.name.partition(".")[0]: path for path in found}


def markdown_beside(path: Path) -> Path:
    """The page of a table's JSON: of the same name, or the README.md of the study whose record it is."""
    return path.with_name("README.md") if path.name == RECORD else path.with_suffix(".md")


def check_folder(folder: Path, *, unsealed: bool = False) -> tuple[int, list[str]]:
    """Recompute every table of a folder, or the one that is named, from its JSON.

    The record of a comparison must be whole. The page must stand, whole, in the Markdown beside it, which may say
    more around it; the verdicts in the JSON must be those of its runs. JSON files that are no table are left out.

    Args:
        unsealed: see `faults`.

    Returns:
        the number of tables, and a sentence for each that differs.
    """
    records = {path: record for path in table_files(folder) if (record := read_record(path)) is not None}
    return len(records), [said for path, record in records.items() for said in _check(path, record, unsealed)]


def _check(path: Path, record: dict[str, Any], unsealed: bool) -> Iterator[str]:
    """What is wrong with a record and with the page beside it; one in the archive has none."""
    is_archived = path.suffix == ".xz"
    if is_table := not {"comparison", "datasets"}.intersection(record):
        remedy = f"try git checkout {path}" if is_archived else f"try make reproduce-table TABLE={record['table']}"
    else:
        remedy = "try verify of the version that made it"
        if said := faults(record, unsealed=unsealed):
            remedy = remedy if unsealed or faults(record, unsealed=True) else "try --unsealed"
            yield f"{path}: the record is not whole: {'; '.join(said)}: {remedy}"
            return
    judged = [] if is_table else [record, *record.get("datasets", {}).values()]
    are_judged = all(claims_of(own) == judged_again(own) for own in judged)
    if "rows" in record:
        are_judged &= record.get("verdicts") == json.loads(json.dumps(judge_claims(record)))
    if not are_judged:
        yield f"{path}: the verdicts are not those of its runs: {remedy}"
    markdown = markdown_beside(path)
    if not is_archived and not (markdown.exists() and page(record) in markdown.read_text()):
        yield f"{markdown} is not what {path.name} gives: {remedy}"
