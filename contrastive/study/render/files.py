"""The files of a comparison, made from its record alone, and the check of kept ones."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from contrastive.files import write_text
from contrastive.report.facts import facts_table, heading, protocols, record_grid
from contrastive.report.frame import record_frame
from contrastive.report.grid import N_COLUMNS, Column, Grid, as_csv, escape
from contrastive.report.record import as_json
from contrastive.study.compare.check import faults
from contrastive.study.compare.outcome import judged_again
from contrastive.study.record import read_compared
from contrastive.study.render import comparison
from contrastive.study.render.effects import claims_of, effects
from contrastive.study.render.sentences import sentences

RECORD = "record.json"  # of a study, in its folder
BOLD = "Bold: the best mean of a column, of rows with three seeds or more and equal epochs."
N_EFFECTS = 7  # columns of the effects that LaTeX has


def write_pages(record: dict[str, Any], base: Path) -> str:
    """Write base.md and .json, of a comparison on one data set base.csv, base-effects.csv and .tex, too; returns the
    Markdown."""
    text = page(record)
    content = {".md": f"{text}\n", ".json": as_json(record)}
    if "rows" in record:
        content |= {".csv": figures_csv(record), ".tex": f"{page_latex(record)}\n"}
        content |= {"-effects.csv": as_csv(effects(record))} if claims_of(record) else {}
    for suffix, body in content.items():
        write_text(base.with_name(base.name + suffix), body)
    return text


def page(record: dict[str, Any]) -> str:
    """The whole page as Markdown: what was compared, the verdicts, the table, what was run, the protocols."""
    said = "\n".join(f"- {text}" for text in sentences(record))
    if "datasets" in record:
        parts = [f"{record['title']}: test split, accuracies in percent.", said, effects(record).markdown()]
        last = f"Command: `{comparison.command(record)}`"
        return "\n\n".join([*parts, comparison.LEGEND_OVER, *comparison.notes(record), last])
    figures, devices = record_grid(record), sorted(set(record_frame(record).table["machine"]))
    parts = [
        heading(record), said, figures.markdown(),
        BOLD if figures.best else "",
        f"Runs are on {' and '.join(devices)}, those of one seed on one." if len(devices) > 1 else "",
        *comparison.sections(record), facts_table(record, searched=comparison.minutes_of_search(record)),
        protocols(record),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part)


def figures_csv(record: dict[str, Any]) -> str:
    """A line for each row: of each metric the mean, standard deviation and n."""
    overrides = Column("overrides", [" ".join(row["overrides"]) for row in record["rows"]])
    return as_csv(Grid([*record_grid(record).columns, overrides]))


def page_latex(record: dict[str, Any]) -> str:
    """The table with its first three metrics, the effects, and the paragraph for the methods section."""
    title = record["title"] + ("" if record["title"].endswith("?") else ":")
    caption = f"{title} mean ± std over seeds (n), accuracies in percent."
    metrics = record_grid(record).columns[: 1 + min(N_COLUMNS, len(record["metrics"]))]
    parts = [Grid(metrics).latex(caption=caption, label=record["table"])]
    if claims_of(record):
        caption = f"{title} effects with simultaneous 95 % intervals."
        shown = Grid(effects(record).columns[:N_EFFECTS])
        parts.append(shown.latex(caption=caption, label=f"{record['table']}-effects"))
    return "\n\n".join([*parts, escape(comparison.protocol_text(record))])


def record_files(place: Path) -> list[Path]:
    """The JSON files of a folder, the records of studies and of their archive, or the one file that `place` is."""
    names = ("*.json", f"*/{RECORD}", "*.json.xz", "*/*.json.xz")
    return [place] if place.is_file() else sorted(path for name in names for path in place.glob(name))


def check_folder(folder: Path, *, unsealed: bool = False) -> tuple[int, list[str]]:
    """Recompute every comparison of a folder, or the one that is named, from its record.

    It must be whole, its verdicts those of its runs, and its page must stand in the Markdown beside it, which may say
    more around it. JSON files that are no comparison are left out.

    Args:
        unsealed: see `faults`.

    Returns:
        the number of comparisons, and a sentence for each that differs.
    """
    read = {path: record for path in record_files(folder) if (record := read_compared(path)) is not None}
    records = {path: own for path, own in read.items() if {"comparison", "datasets"}.intersection(own)}
    return len(records), [said for path, record in records.items() for said in _check(path, record, unsealed)]


def _check(path: Path, record: dict[str, Any], unsealed: bool) -> Iterator[str]:
    """What is wrong with a record and with the page beside it, which that of a study has not."""
    remedy = "try verify of the version that made it"
    if said := faults(record, unsealed=unsealed):
        remedy = remedy if unsealed or faults(record, unsealed=True) else "try --unsealed"
        yield f"{path}: the record is not whole: {'; '.join(said)}: {remedy}"
        return
    if any(claims_of(own) != judged_again(own) for own in [*record.get("datasets", {}).values(), record]):
        yield f"{path}: the verdicts are not those of its runs: {remedy}"
        return
    markdown = path.with_suffix(".md")
    if markdown.exists() and page(record) not in markdown.read_text():
        yield f"{markdown} is not what {path.name} gives: {remedy}"
