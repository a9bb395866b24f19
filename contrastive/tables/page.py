"""A table as Markdown, CSV, LaTeX and JSON, computed from its record alone, and the check of committed ones."""

import json
import re
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from contrastive.errors import ConfigError
from contrastive.files import write_text
from contrastive.tables.record import device_of, is_best_test
from contrastive.tables.spec import is_published_setting, look_up, published_heading, published_number
from contrastive.tables.verdicts import LEGEND, claims_grid, judge_claims, signed
from contrastive.text import format_grid, spread

SELECTED = "best test epoch, as published"
TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "ε": r"$\epsilon$", "τ": r"$\tau$",
    ">": "$>$", "<": "$<$",
}  # fmt: skip


class Cell(NamedTuple):
    """One metric of one row: ours from the runs, beside the published."""

    values: list[float]
    published: str
    difference: float | None  # None: nothing to compare, or not the published setting

    @property
    def mean(self) -> float | None:
        return mean(self.values) if self.values else None

    @property
    def std(self) -> float | None:
        return stdev(self.values) if len(self.values) > 1 else None


def cell(record: dict[str, Any], row: dict[str, Any], metric: str) -> Cell:
    """A metric of a row. A difference is told only for the published setting."""
    values = [value for run in row["runs"] if (value := look_up(run, metric)) is not None]
    published = row["published"].get(metric, "")
    number = published_number(published)
    difference = mean(values) - number if values and number is not None and is_published_setting(record) else None
    return Cell(values, published, difference)


def page(record: dict[str, Any]) -> str:
    """The whole page: what was compared, what was run, the table, the claims, the protocols."""
    claims = [LEGEND, format_grid(claims_grid(record))] if record["claims"] else []
    parts = [heading(record), record["note"], format_grid(grid(record)), mixed_rows(record), *claims, protocols(record)]
    return "\n\n".join(part for part in parts if part)


def heading(record: dict[str, Any]) -> str:
    """What the runs were, taken from the runs: settings, commit, dates, device, versions, minutes."""
    preset = "" if record["preset"] == "paper" else f" ({record['preset']} preset, not the published setting)"
    lines = [f"{record['title']}{preset}: {split(record).lower()}, mean ± std (n seeds), accuracies in percent."]
    if record["extra"]:
        lines.append(f"Settings changed in every row: {' '.join(record['extra'])}.")
    if not _runs(record):
        return " ".join([*lines, "No run is finished."])
    lines.append(f"Run with {'; '.join(f'{key} {text}' for key, text in settings_of_runs(record))}.")
    lines.append(f"{runs_and_minutes(record)}: {'; '.join(map(_environment, record['environments']))}.")
    return " ".join(lines)


def mixed_rows(record: dict[str, Any]) -> str:
    """Which rows have runs on several kinds of processor; empty where none has."""
    kinds = {row["name"]: sorted({device_of(record, run) for run in row["runs"]}) for row in record["rows"]}
    mixed = [f"{name} ({' and '.join(devices)})" for name, devices in kinds.items() if len(devices) > 1]
    return f"Runs on several kinds of processor: {'; '.join(mixed)}. Claims pair only runs on one." if mixed else ""


def split(record: dict[str, Any]) -> str:
    """The images that the table's figures are of."""
    return "Validation images" if all(metric.startswith("val.") for metric in record["metrics"]) else "Test split"


def facts(record: dict[str, Any]) -> list[tuple[str, str]]:
    """The same as the heading, as (term, text)."""
    changed = [("changed in every row", " ".join(record["extra"]))] if record["extra"] else []
    if not _runs(record):
        return [("runs", "none is finished"), *changed]
    places = [("run on", _environment(environment)) for environment in record["environments"]]
    return [("runs", runs_and_minutes(record)), *changed, *settings_of_runs(record), *places]


def settings_of_runs(record: dict[str, Any]) -> list[tuple[str, str]]:
    """(setting, its values over the runs)."""
    runs = _runs(record)
    return [(key, _list(list(dict.fromkeys(run["settings"][key] for run in runs)))) for key in runs[0]["settings"]]


def runs_and_minutes(record: dict[str, Any]) -> str:
    """How many runs, when, and how long."""
    runs = _runs(record)
    dates = sorted({run["date"] for run in runs if run["date"]})
    when = f" on {dates[0]}" if len(dates) == 1 else f" from {dates[0]} to {dates[-1]}" if dates else ""
    minutes = sum(run["minutes"] for run in runs)
    return f"{len(runs)} run{'' if len(runs) == 1 else 's'}{when}, {minutes:.1f} minutes in all"


def _runs(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [run for row in record["rows"] for run in row["runs"]]


def _environment(environment: dict[str, Any]) -> str:
    commit = (environment["commit"] or "unknown")[:12] + (" with changes" if environment["dirty"] else "")
    threads = f"{environment['threads']} thread{'' if environment['threads'] == 1 else 's'}"
    return (
        f"{environment['device']} ({threads}, {environment['precision']}), "
        f"Python {environment['python']}, torch {environment['torch']}, commit {commit}"
    )


def _list(values: list[str]) -> str:
    return ", ".join(values) if len(values) <= 4 else f"{values[0]}, ..., {values[-1]} ({len(values)} values)"


def columns(record: dict[str, Any]) -> list[str]:
    """The metrics of the table; with other evaluators than usual also every other test metric that its runs have."""
    chosen = any(word.startswith("evaluator=") for word in record["extra"])
    others = dict.fromkeys(key for run in _runs(record) for key in run["test"]) if chosen else {}
    return list(dict.fromkeys([*record["metrics"], *others]))


def grid(record: dict[str, Any]) -> list[list[str]]:
    """The table's cells as text, the head first."""
    metrics, rows = columns(record), record["rows"]
    cells = [[cell(record, row, metric) for metric in metrics] for row in rows]
    published = [i for i in range(len(metrics)) if any(line[i].published for line in cells)]
    compared = [i for i in published if any(line[i].difference is not None for line in cells)]
    reported = any(metric.startswith("audit.reported") for metric in metrics)
    sources = any(row["source"] for row in rows)
    table = [["method", *(_title(record, metric) for metric in metrics)]]
    for i in published:
        table[0] += [
            f"{published_heading(record)} {_name(record, metrics[i])}",
            *(["difference"] if i in compared else []),
        ]
    table[0] += [*(["read-out of reported"] if reported else []), *(["source"] if sources else []), "minutes"]
    for row, ours in zip(rows, cells, strict=True):
        line = [row["name"], *(_figure(row, metric, one) for metric, one in zip(metrics, ours, strict=True))]
        for i in published:
            line += [ours[i].published, *([signed(ours[i].difference)] if i in compared else [])]
        line += [*([read_out(row)] if reported else []), *([row["source"]] if sources else []), minutes(row)]
        table.append(line)
    return table


def _figure(row: dict[str, Any], metric: str, ours: Cell) -> str:
    """A cell's text; a figure that was selected on the test split says so, unless the heading of the column does."""
    if not (row["overrides"] or ours.values):
        return ""
    selected = ", best test epoch" if "best_test" not in metric and is_best_test(row, metric) else ""
    return f"{spread(ours.values)}{selected}"


def _name(record: dict[str, Any], metric: str) -> str:
    return str(record["metrics"].get(metric, metric))


def _title(record: dict[str, Any], metric: str) -> str:
    """The heading of a metric; one selected on the test split says so."""
    name = _name(record, metric)
    return f"{name} ({SELECTED})" if "best_test" in metric else name


def minutes(row: dict[str, Any]) -> str:
    """Mean minutes of a run."""
    return f"{mean(run['minutes'] for run in row['runs']):.1f}" if row["runs"] else ""


def read_out(row: dict[str, Any]) -> str:
    """Which read-out and metric the reported figures of a row are."""
    reported = [run["audit"].get("reported", {}) for run in row["runs"]]
    names = dict.fromkeys(f"{r['read_out']}, {r['metric']}" for r in reported if r)
    return "; ".join(f"{name} ({SELECTED})" if "best_test" in name else name for name in names)


def protocols(record: dict[str, Any]) -> str:
    """A list of the protocols behind the columns."""
    lines = [f"- {name}: {text}" for metric in columns(record) for name, text in protocol(record, metric)]
    return "\n".join(dict.fromkeys(lines))


def protocol(record: dict[str, Any], metric: str) -> list[tuple[str, str]]:
    """(evaluator, sentence) of everything that a metric comes from; several when rows differ."""
    path = metric.split(".")
    if path[:2] == ["audit", "by_class"]:
        names = ["class_audit", path[2]]
    else:
        names = ["bias_audit", path[1]] if path[0] == "audit" else [path[-1]]
    pairs = [
        (evaluator, text)
        for known in record["protocols"]
        for evaluator, text in known.items()
        if any(f"{name}_".startswith(f"{evaluator}_") for name in names)
    ]
    return list(dict.fromkeys(pairs))


def figures(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Every figure of the table: a dictionary for each row and metric, numbers unrounded, None where there is none."""
    lines = []
    for row in record["rows"]:
        devices = {device_of(record, run) for run in row["runs"]}
        for metric in columns(record):
            value = cell(record, row, metric)
            lines.append(
                {
                    "method": row["name"],
                    "metric": metric,
                    "mean": value.mean,
                    "std": value.std,
                    "n": len(value.values),
                    "published": value.published or None,
                    "difference": value.difference,
                    "read_out": read_out(row) if metric.startswith("audit.reported") else None,
                    "source": row["source"] or None,
                    "protocol": "; ".join(f"{name}: {text}" for name, text in protocol(record, metric)),
                    "device": "; ".join(sorted(devices)) or None,
                    "minutes": minutes(row) or None,
                    "overrides": " ".join(row["overrides"]),
                }
            )
    return lines


def as_csv(record: dict[str, Any]) -> str:
    """One line for each row and metric."""
    import pandas as pd  # late: checking committed tables does not need it

    return str(pd.DataFrame(figures(record)).to_csv(index=False))


def as_latex(record: dict[str, Any]) -> str:
    r"""Booktabs tables, the claims in one of their own; the document needs \usepackage{booktabs}."""
    claims = [_tabular(claims_grid(record), LEGEND, "lllrrrr" + "l" * 4)] if record["claims"] else []
    table = grid(record)
    return "\n".join([_tabular(table, heading(record), "l" + "r" * (len(table[0]) - 1)), *claims])


def _tabular(table: list[list[str]], caption: str, columns: str) -> str:
    return "\n".join([
        r"\begin{table}", rf"\caption{{{escape(caption)}}}", booktabs(table, columns), r"\end{table}",
    ])  # fmt: skip


def booktabs(table: list[list[str]], columns: str) -> str:
    """Cells of text, the head first, as a tabular; `columns` are its letters, as many as are needed are used."""
    head, *body = [[escape(cell) for cell in row] for row in table]
    return "\n".join([
        rf"\begin{{tabular}}{{{columns[: len(head)]}}}",
        r"\toprule",
        f"{' & '.join(head)} \\\\",
        r"\midrule",
        *(f"{' & '.join(row)} \\\\" for row in body),
        r"\bottomrule",
        r"\end{tabular}",
    ])  # fmt: skip


def escape(text: str) -> str:
    """Text as LaTeX prints it."""
    return "".join(TEX.get(letter, letter) for letter in text)


def write_pages(record: dict[str, Any], base: Path) -> str:
    """Write base.md, .csv, .tex and .json; returns the Markdown."""
    text = page(record)
    content = {
        ".md": f"{text}\n",
        ".csv": as_csv(record),
        ".tex": f"{as_latex(record)}\n",
        ".json": as_json({**record, "verdicts": judge_claims(record)}),
    }
    for suffix, body in content.items():
        write_text(base.with_name(base.name + suffix), body)
    return text


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

    The page must stand, whole, in the Markdown of the same name, which may say more around it; the verdicts in the
    JSON must be those of its runs. JSON files that are no table are left out.

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
        if record.get("verdicts") != json.loads(json.dumps(judge_claims(record))):
            wrong.append(f"{path}: the verdicts are not those of its runs: {remedy}")
        markdown = path.with_suffix(".md")
        if not markdown.exists() or page(record) not in markdown.read_text():
            wrong.append(f"{markdown} is not what {path.name} gives: {remedy}")
    return checked, wrong
