"""The files of a table, made from its record alone, and the check of committed ones."""

import json
import re
from pathlib import Path
from typing import Any

from contrastive.files import write_text
from contrastive.study.compare.outcome import judged_again
from contrastive.study.compare.whole import faults, faults_over
from contrastive.study.frame import record_frame
from contrastive.study.judge import judge_claims
from contrastive.study.record import read_datasets, read_record
from contrastive.study.render import comparison, datasets
from contrastive.study.render.claims import claims_grid
from contrastive.study.render.latex import N_COLUMNS, escape, latex
from contrastive.study.render.markdown import best_figures, grid, minutes, page
from contrastive.study.render.text import as_csv

RECORD = "record.json"  # of a study, in its folder


def write_pages(record: dict[str, Any], base: Path) -> str:
    """Write base.md, .csv, .tex and .json, of a comparison base-effects.csv, too; returns the Markdown."""
    text = page(record)
    content = {
        ".md": f"{text}\n",
        ".csv": table_csv(record),
        ".tex": f"{table_latex(record)}\n",
        ".json": as_json({**record, "verdicts": judge_claims(record)}),
    }
    if record.get("comparison", {}).get("judged"):
        content["-effects.csv"] = comparison.effects_csv(record)
    for suffix, body in content.items():
        write_text(base.with_name(base.name + suffix), body)
    return text


def write_dataset_pages(record: dict[str, Any], base: Path) -> None:
    """Write base.md, base-effects.csv, base.tex and base.json of a comparison over data sets."""
    label = f"{record['table']}-effects"
    caption = f"{record['title']}: effects on each data set and over all, with simultaneous 95 % intervals."
    cells = [line[:8] for line in datasets.effects(record)]
    content = {
        ".md": f"{datasets.markdown(record)}\n",
        "-effects.csv": datasets.effects_csv(record),
        ".tex": f"{latex(cells, caption=caption, label=label)}\n\n{escape(datasets.protocol_text(record))}\n",
        ".json": as_json(record),
    }
    for suffix, body in content.items():
        write_text(base.with_name(base.name + suffix), body)


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
    frame = record_frame(record)
    metrics = frame.metrics[:N_COLUMNS]
    best = [cell for cell in best_figures(record) if cell[1] <= len(metrics)]
    title = record["title"] + ("" if record["title"].endswith("?") else ":")
    caption = f"{title} mean ± std over seeds (n), accuracies in percent."
    tables = [latex(grid(record, metrics), caption=caption, label=record["table"], best=best)]
    if record["claims"]:
        cells = [line[:4] for line in claims_grid(record)]
        caption = f"{title} effects with their 95 % intervals."
        tables.append(latex(cells, caption=caption, label=f"{record['table']}-claims"))
    if record.get("comparison", {}).get("judged"):
        cells = [line[:7] for line in comparison.effects(record)]
        caption = f"{title} effects with simultaneous 95 % intervals."
        tables.append(latex(cells, caption=caption, label=f"{record['table']}-effects"))
    if "comparison" in record:
        tables.append(escape(comparison.protocol_text(record)))
    return "\n\n".join(tables)


def as_json(record: dict[str, Any]) -> str:
    """Indented JSON with every list of numbers, and every curve, on one line."""
    text = json.dumps(record, indent=1, ensure_ascii=False)
    text = re.sub(r"\[[\d\s.,eE+-]+\]", lambda numbers: " ".join(numbers[0].split()), text)
    return re.sub(r'\{\s+("epoch": \[[^\]]*\]),\s+("value": \[[^\]]*\])\s+\}', r"{\1, \2}", text) + "\n"


def table_files(place: Path) -> list[Path]:
    """The JSON files of a folder, the records of a folder of studies, or the one file that `place` is."""
    return [place] if place.is_file() else sorted([*place.glob("*.json"), *place.glob(f"*/{RECORD}")])


def markdown_beside(path: Path) -> Path:
    """The page of a table's JSON: of the same name, or the README.md of the study whose record it is."""
    return path.with_name("README.md") if path.name == RECORD else path.with_suffix(".md")


def check_folder(folder: Path) -> tuple[int, list[str]]:
    """Recompute every table of a folder, or the one that is named, from its JSON.

    The record of a comparison must be whole. The page must stand, whole, in the Markdown beside it, which may say
    more around it; the verdicts in the JSON must be those of its runs. JSON files that are no table are left out.

    Returns:
        the number of tables, and a sentence for each that differs.
    """
    checked, wrong = 0, []
    for path in table_files(folder):
        record = read_record(path)
        if record is None:
            if (over := read_datasets(path)) is not None:
                checked += 1
                wrong += _check_datasets(path, over)
            continue
        checked += 1
        if "comparison" in record and (said := faults(record)):
            wrong.append(f"{path}: the record is not whole: {'; '.join(said)}: try contrastive compare with its words")
            continue
        if "comparison" in record and record["comparison"]["judged"] != judged_again(record):
            wrong.append(f"{path}: the verdicts are not those of its runs: try contrastive compare with its words")
        remedy = f"try make reproduce-table TABLE={record['table']}"
        if record.get("verdicts") != json.loads(json.dumps(judge_claims(record))):
            wrong.append(f"{path}: the verdicts are not those of its runs: {remedy}")
        markdown = markdown_beside(path)
        if not markdown.exists() or page(record) not in markdown.read_text():
            wrong.append(f"{markdown} is not what {path.name} gives: {remedy}")
    return checked, wrong


def _check_datasets(path: Path, record: dict[str, Any]) -> list[str]:
    """What is wrong with the record of a comparison over data sets, and with its page."""
    remedy = "try contrastive compare with its words"
    if said := faults_over(record):
        return [f"{path}: the record is not whole: {'; '.join(said)}: {remedy}"]
    markdown = path.with_suffix(".md")
    if not markdown.exists() or datasets.markdown(record) not in markdown.read_text():
        return [f"{markdown} is not what {path.name} gives: {remedy}"]
    return []
