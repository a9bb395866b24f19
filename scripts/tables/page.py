"""The record of a table and its pages: Markdown, CSV, LaTeX, JSON and HTML, each made from the record alone."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from statistics import mean
from types import ModuleType
from typing import Any

from contrastive.files import write_text
from contrastive.report.collect import finished_runs, logged_name, record_of
from contrastive.report.curves import thin
from contrastive.report.facts import facts_table, heading, metric_column, minutes_column, protocols
from contrastive.report.frame import record_frame
from contrastive.report.grid import N_COLUMNS, Column, Grid, as_csv
from contrastive.report.page import chart_module, document, methods_of, section
from contrastive.report.record import as_json
from contrastive.run.figures import VERDICTS
from contrastive.study.render.page import compared_section, verdict_section
from tables.claims import (
    LEGEND,
    claim_text,
    claims_grid,
    is_best_test,
    is_published_setting,
    judge_claims,
    published_heading,
    published_number,
    signed,
)
from tables.due import runs_of
from tables.spec import Table
from tables.sweeps import read_sweeps

SELECTED = "best test epoch, as published"
Record = dict[str, Any]


def table_record(table: Table, base: Path, *, leave_out: Collection[Path] = ()) -> Record:
    """The record of the table's finished runs under `base`, plain containers for JSON.

    Args:
        leave_out: directories of runs that are not the table's, such as those with other settings.
    """
    paths = {row.name: list[Path]() for row in table.rows}
    for run in runs_of(table, base):
        paths[run.row] += [run.path] if run.path not in leave_out else []
    rows = [(row.name, row.overrides, finished_runs(paths[row.name])) for row in table.rows]
    record = record_of(table.name, rows, table.metrics)
    for row, made in zip(table.rows, record["rows"], strict=True):
        made |= {"published": row.published, "source": row.source, "point": row.point}
        made["published_curves"] = {
            logged_name(metric): thin(list(enumerate(curve["values"], start=curve["from"])))
            for metric, curve in row.curves.items()
        }
    own = {"preset": table.preset, "title": table.title, "note": table.note}
    return {**record, **own, "extra": list(table.changes), "claims": list(table.claims)}


def write_pages(record: Record, base: Path) -> str:
    """Write base.md, .json, .csv and .tex; returns the Markdown."""
    text = page(record)
    content = {
        ".md": f"{text}\n", ".csv": table_csv(record), ".tex": f"{table_latex(record)}\n",
        ".json": as_json({**record, "verdicts": judge_claims(record)}),
    }  # fmt: skip
    for suffix, body in content.items():
        write_text(base.with_name(base.name + suffix), body)
    return text


def page(record: Record) -> str:
    """The whole page as Markdown: what was compared, the table, the claims, what was run, the protocols."""
    figures, claims = grid(record), judge_claims(record)
    where = " at each point of the grid" if any(row["point"] for row in record["rows"]) else ""
    legend = f"Bold: the best mean of a column{where}, of rows with three seeds or more and equal epochs."
    missing = "; ".join(missing_runs(record))
    mixed = [f"{name} ({' and '.join(own)})" for name, own in record_frame(record).mixed.items()]
    parts = [
        title(record), record["note"], figures.markdown(), legend if figures.best else "",
        f"Not run, or broken down: {missing}. Means and claims are of the others." if missing else "",
        f"On several kinds of machine: {'; '.join(mixed)}. Claims pair those of one." if mixed else "",
        *([claims_grid(record, claims).markdown(), LEGEND] if claims else []), facts_table(record), protocols(record),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part)


def title(record: Record) -> str:
    """What the figures of the table are."""
    preset = "" if record["preset"] == "paper" else f" ({record['preset']} preset, not the published setting)"
    return heading({**record, "title": f"{record['title']}{preset}"})


def table_csv(record: Record) -> str:
    """A line for each row: of each metric the mean, standard deviation and n, beside the published figures."""
    overrides = Column("overrides", [" ".join(row["overrides"]) for row in record["rows"]])
    return as_csv(Grid([*grid(record).columns, overrides]))


def table_latex(record: Record) -> str:
    """The table with its first three metrics, and the claims in one of their own."""
    name = record["title"] + ("" if record["title"].endswith("?") else ":")
    caption = f"{name} mean ± std over seeds (n), accuracies in percent."
    tables = [grid(record, n_metrics=N_COLUMNS).latex(caption=caption, label=record["table"])]
    if claims := judge_claims(record):
        shown = Grid(claims_grid(record, claims).columns[:4])
        tables.append(
            shown.latex(caption=f"{name} effects with their 95 % intervals.", label=f"{record['table']}-claims")
        )
    return "\n\n".join(tables)


def grid(record: Record, *, n_metrics: int | None = None) -> Grid:
    """The table: its metrics, published figures beside them, read-out, source and minutes.

    Args:
        n_metrics: only so many of its metrics, without what stands behind them; None = all.
    """
    frame, rows = record_frame(record), record["rows"]
    metrics = frame.metrics[:n_metrics]
    columns = [Column("method", [row["name"] for row in rows]), *(figures(record, metric) for metric in metrics)]
    for metric in metrics:
        if any(metric in row["published"] for row in rows):
            columns += published(record, metric)
    if n_metrics is not None:
        return Grid(columns)
    if any(metric.startswith("audit.reported") for metric in metrics):
        columns.append(Column("read-out of reported", [read_out(row) for row in rows]))
    if any(row["source"] for row in rows):
        columns.append(Column("source", [row["source"] for row in rows]))
    return Grid([*columns, minutes_column(rows)])


def figures(record: Record, metric: str) -> Column:
    """A metric of every row; figures that were selected on the test split say so, unless the heading does."""
    rows, name = record["rows"], record["metrics"].get(metric, metric)
    is_selected = "best_test" in metric
    frame = record_frame(record)
    column = metric_column(
        frame, metric, [row["name"] for row in rows], [row["point"] for row in rows],
        head=f"{name} ({SELECTED})" if is_selected else name,
    )  # fmt: skip
    cells = [
        "" if not (row["overrides"] or frame.values(row["name"], metric))
        else f"{text}, best test epoch" if not is_selected and is_best_test(row, metric)
        else text
        for row, text in zip(rows, column.cells, strict=True)
    ]  # fmt: skip
    return replace(column, cells=cells)


def published(record: Record, metric: str) -> list[Column]:
    """The published figures of a metric, and how far ours are, told for the published setting alone."""
    rows, name = record["rows"], record["metrics"].get(metric, metric)
    texts = [row["published"].get(metric, "") for row in rows]
    columns = [Column(f"{published_heading(record)} {name}", texts, {f"published {metric}": texts})]
    values = [record_frame(record).values(row["name"], metric) for row in rows]
    differences = [
        signed(mean(own) - number) if own and (number := published_number(text)) is not None else ""
        for own, text in zip(values, texts, strict=True)
    ]
    if is_published_setting(record) and any(differences):
        columns.append(Column("difference", differences, {f"difference {metric}": differences}))
    return columns


def read_out(row: dict[str, Any]) -> str:
    """Which read-out and metric the reported figures of a row are."""
    reported = [run["audit"].get("reported", {}) for run in row["runs"]]
    names = dict.fromkeys(f"{r['read_out']}, {r['metric']}" for r in reported if r)
    return "; ".join(f"{name} ({SELECTED})" if "best_test" in name else name for name in names)


def html(records: list[Record], *, static: bool = False) -> str:
    """One document of tables and comparisons.

    Raises:
        ConfigError: a package that draws it is not installed.
    """
    charts = chart_module()
    over = [verdict_section(record) for record in records if "datasets" in record]
    parts = [one for record in records for one in (record["datasets"].values() if "datasets" in record else [record])]
    shown = [compared_section(one, charts) if "comparison" in one else table_section(one, charts) for one in parts]
    return document(shown, charts, static=static, over=over)


def table_section(record: Record, charts: ModuleType) -> Record:
    """What the template shows of a table."""
    from contrastive.study.render.charts import claims_chart  # late: they need Altair
    from tables.charts import sweep_chart

    judged, methods = judge_claims(record), methods_of(record)
    counts = {word: sum(claim["verdict"] == word for claim in judged) for word in VERDICTS}
    known = [{**c, "claim": claim_text(c), "metric": record["metrics"][c["metric"]]} for c in judged
             if c["effect"] is not None]  # fmt: skip
    sweeps: dict[str, list[Record]] = {}
    for entry in read_sweeps(record):
        sweeps.setdefault(entry["setting"], []).append(entry)
    claims = {
        "grid": claims_grid(record, judged),
        "legend": LEGEND,
        "counts": {word: n for word, n in counts.items() if n or word not in ("equal", "failed")},
        "has_published": any(claim["published_effect"] is not None for claim in judged),
        "effects": claims_chart(known) if known else None,
    }
    return {
        **section(record, charts, grid(record)),
        "missing": missing_runs(record),
        "claims": claims if judged else None,
        "sweeps": [sweep_chart(entries, methods, record["metrics"]) for entries in sweeps.values()],
    }


def missing_runs(record: Record) -> list[str]:
    """Rows without a run, and seeds that other rows have; quoted rows are never run."""
    rows = [row for row in record["rows"] if row["overrides"]]
    seeds = {row["name"]: {run["seed"] for run in row["runs"]} for row in rows}
    # of most rows: a single row may have been given more
    counts = [seed for own in seeds.values() for seed in own]
    usual = {seed for seed in counts if 2 * counts.count(seed) > len([own for own in seeds.values() if own])}
    lacking = {name: sorted(usual - own) for name, own in seeds.items()}
    return [
        name if not seeds[name] else f"{name}, seed {', '.join(map(str, lacking[name]))}"
        for name in seeds
        if not seeds[name] or lacking[name]
    ]
