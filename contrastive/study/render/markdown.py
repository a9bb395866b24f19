"""A table's page as Markdown, computed from its record alone."""

from statistics import mean
from typing import Any

from contrastive.study.frame import record_frame
from contrastive.study.record import is_best_test, shown_metrics
from contrastive.study.render import comparison, datasets
from contrastive.study.render.claims import LEGEND, claims_grid, signed
from contrastive.study.render.sentences import sentences
from contrastive.study.render.text import best_cells, split_of
from contrastive.study.spec import is_published_setting, published_heading, published_number
from contrastive.text import format_grid, spread

SELECTED = "best test epoch, as published"
BAR = r"\|"  # inside a cell


def page(record: dict[str, Any]) -> str:
    """The whole page: what was compared, the table, the claims, what was run, the protocols; of a comparison over data
    sets what is said of them."""
    if "datasets" in record:
        return datasets.markdown(record)
    compared = "comparison" in record
    verdicts = "\n".join(f"- {text}" for text in sentences(record)) if compared else ""
    claims = [format_grid(claims_grid(record)), LEGEND] if record["claims"] else []
    best = best_figures(record)
    cells = [[f"**{text}**" if (i, j) in best else text for j, text in enumerate(line)]
             for i, line in enumerate(grid(record))]  # fmt: skip
    where = " at each point of the grid" if any(row["point"] for row in record["rows"]) else ""
    legend = (
        f"Bold: the best mean of a column{where}, of rows with three seeds or more and equal epochs." if best else ""
    )
    parts = [
        heading(record), record["note"], verdicts, format_grid(cells), legend, mixed_rows(record),
        *(comparison.sections(record) if compared else []), *claims, facts_table(record), protocols(record),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part)


def heading(record: dict[str, Any]) -> str:
    """What the figures of the table are."""
    preset = "" if record["preset"] == "paper" else f" ({record['preset']} preset, not the published setting)"
    return f"{record['title']}{preset}: {split(record).lower()}, mean ± std (n seeds), accuracies in percent."


def mixed_rows(record: dict[str, Any]) -> str:
    """Which rows have runs on several kinds of processor; empty where none has."""
    frame = record_frame(record)
    if "comparison" in record:
        devices = sorted(set(frame.table["processor"]))
        return f"Runs are on {' and '.join(devices)}, those of one seed on one." if len(devices) > 1 else ""
    mixed = [f"{name} ({' and '.join(devices)})" for name, devices in frame.mixed.items()]
    return f"Runs on several kinds of processor: {'; '.join(mixed)}. Claims pair only runs on one." if mixed else ""


def split(record: dict[str, Any]) -> str:
    """The images that the table's figures are of."""
    return split_of(record["metrics"]).capitalize()


def facts(record: dict[str, Any]) -> list[tuple[str, str]]:
    """What the runs were, taken from the runs, as (term, text): settings, commit, dates, device, versions, minutes."""
    changed = [("changed in every row", " ".join(record["extra"]))] if record["extra"] else []
    if not _runs(record):
        return [("runs", "none is finished"), *changed]
    places = [("run on", _environment(environment)) for environment in record["environments"]]
    return [("runs", runs_and_minutes(record)), *changed, *settings_of_runs(record), *places]


def facts_table(record: dict[str, Any]) -> str:
    """`facts`, not padded: one long value would make every line wrap in a terminal."""
    lines = [f"| {term} | {text.replace('|', BAR)} |" for term, text in facts(record)]
    return "\n".join(["| what was run | |", "|---|---|", *lines])


def settings_of_runs(record: dict[str, Any]) -> list[tuple[str, str]]:
    """(setting, its values over the runs)."""
    runs = _runs(record)
    keys = dict.fromkeys(key for run in runs for key in run["settings"])
    return [(key, _list(list(dict.fromkeys(run["settings"].get(key, "none") for run in runs)))) for key in keys]


def runs_and_minutes(record: dict[str, Any]) -> str:
    """How many runs, when, and how long."""
    runs = _runs(record)
    dates = sorted({run["date"] for run in runs if run["date"]})
    when = f" on {dates[0]}" if len(dates) == 1 else f" from {dates[0]} to {dates[-1]}" if dates else ""
    minutes = sum(run["minutes"] for run in runs)
    searched, of_search = comparison.runs_of_search(record)
    beside = f", {searched} of them in the search," if searched else ""
    count = len(runs) + searched
    return f"{count} run{'' if count == 1 else 's'}{beside}{when}, {minutes + of_search:.1f} minutes in all"


def _runs(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [run for row in record["rows"] for run in row["runs"]]


def _environment(environment: dict[str, Any]) -> str:
    commit = (environment["commit"] or "unknown")[:12] + (" with changes" if environment["dirty"] else "")
    threads = f"{environment['threads']} thread{'' if environment['threads'] == 1 else 's'}"
    return (
        f"{environment.get('processor') or environment['device']} ({threads}, {environment['precision']}), "
        f"Python {environment['python']}, torch {environment['torch']}, commit {commit}"
    )


def _list(values: list[str]) -> str:
    return ", ".join(values) if len(values) <= 4 else f"{values[0]}, ..., {values[-1]} ({len(values)} values)"


def grid(record: dict[str, Any], metrics: list[str] | None = None) -> list[list[str]]:
    """The table's cells as text, the head first.

    Args:
        metrics: the columns; None = all, and the read-out, the source and the minutes.
    """
    frame, rows, is_whole = record_frame(record), record["rows"], metrics is None
    metrics = metrics or frame.metrics
    published = [metric for metric in metrics if any(metric in row["published"] for row in rows)]
    differences = {(row["name"], m): difference(record, row, frame.values(row["name"], m), m)
                   for row in rows for m in published}  # fmt: skip
    compared = [metric for metric in published if any(differences[row["name"], metric] for row in rows)]
    reported = is_whole and any(metric.startswith("audit.reported") for metric in metrics)
    sources = is_whole and any(row["source"] for row in rows)
    table = [["method", *(_title(record, metric) for metric in metrics)]]
    for metric in published:
        table[0] += [
            f"{published_heading(record)} {_name(record, metric)}",
            *(["difference"] if metric in compared else []),
        ]
    table[0] += [*(["read-out of reported"] if reported else []), *(["source"] if sources else [])]
    table[0] += ["minutes"] if is_whole else []
    for row in rows:
        line = [row["name"], *(_figure(row, metric, frame.values(row["name"], metric)) for metric in metrics)]
        for metric in published:
            line.append(row["published"].get(metric, ""))
            line += [differences[row["name"], metric]] if metric in compared else []
        line += [*([read_out(row)] if reported else []), *([row["source"]] if sources else [])]
        table.append([*line, *([minutes(row)] if is_whole else [])])
    return table


def best_figures(record: dict[str, Any]) -> list[tuple[int, int]]:
    """(row, column) of the best mean of each metric at each point of the grid, in the cells of `grid`."""
    frame, rows = record_frame(record), record["rows"]
    return best_cells(frame, frame.metrics, [row["name"] for row in rows], [row["point"] for row in rows])


def difference(record: dict[str, Any], row: dict[str, Any], values: list[float], metric: str) -> str:
    """Ours minus the published figure, told for the published setting alone; else nothing."""
    number = published_number(row["published"].get(metric, ""))
    return signed(mean(values) - number) if values and number is not None and is_published_setting(record) else ""


def _figure(row: dict[str, Any], metric: str, values: list[float]) -> str:
    """A cell's text; a figure that was selected on the test split says so, unless the heading of the column does."""
    if not (row["overrides"] or values):
        return ""
    selected = ", best test epoch" if "best_test" not in metric and is_best_test(row, metric) else ""
    return f"{spread(values)}{selected}"


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
    lines = [f"- {name}: {text}" for metric in shown_metrics(record) for name, text in protocol(record, metric)]
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
