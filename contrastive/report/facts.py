"""The figures of runs as a table, and what a reader must know of them: settings, machines, protocols."""

from collections.abc import Iterable, Sequence
from statistics import mean
from typing import Any

import numpy as np

from contrastive.report.frame import Frame, record_frame
from contrastive.report.grid import Column, Grid
from contrastive.report.judge import MIN_SEEDS
from contrastive.report.record import shown_metrics
from contrastive.run.figures import lower_is_better
from contrastive.text import spread

BAR = r"\|"  # inside a cell


def metric_column(
    frame: Frame, metric: str, names: Sequence[str], points: Sequence[str] = (), *, head: str = ""
) -> Column:
    """A metric of these rows, mean ± std over seeds; the best means are those of `best_rows`.

    Args:
        points: of a table's grid, one for each name, each with a best row of its own; none = all rows are compared.
        head: the heading; empty = the metric.
    """
    values = [frame.values(name, metric) for name in names]
    numbers: dict[str, list[Any]] = {
        metric: [mean(own) if own else None for own in values],
        f"{metric}_std": [np.std(own, ddof=1) if len(own) > 1 else None for own in values],
        f"{metric}_n": [len(own) for own in values],
    }
    return Column(head or metric, [*map(spread, values)], numbers, best_rows(frame, metric, names, points))


def best_rows(frame: Frame, metric: str, names: Sequence[str], points: Sequence[str] = ()) -> list[int]:
    """The rows with the best mean of a metric.

    Only rows of three seeds and more are compared, with those of as many epochs: a single run, or one that trained
    longer, is not better.
    """
    groups: dict[tuple[str, str], dict[int, float]] = {}
    for i, (name, point) in enumerate(zip(names, points or [""] * len(names), strict=True)):
        if len(values := frame.values(name, metric)) >= MIN_SEEDS:
            epochs = str(frame.rows[name]["settings"].iloc[0].get("epochs"))
            groups.setdefault((point, epochs), {})[i] = mean(values)
    top = min if lower_is_better(metric) else max
    tops = [(means, f"{top(means.values()):.2f}") for means in groups.values() if len(means) > 1]
    return [i for means, best in tops for i, value in means.items() if f"{value:.2f}" == best]


def section_grid(section: Frame, metrics: Sequence[str]) -> Grid:
    """The rows of a dataset."""
    shown, names = section.shown(), list(section.rows)
    return Grid([
        Column("runs", [shown[name] for name in names]),
        *(metric_column(section, metric, names) for metric in metrics),
    ])  # fmt: skip


def section_text(name: str, section: Frame, metrics: Sequence[str], *, more: str = "") -> str:
    """A table for the terminal: what all its rows share stands above, what else a reader must know below.

    Args:
        more: the command that shows the other metrics.
    """
    hidden = len(set(section.test_metrics()) - set(metrics))
    return "\n".join([
        f"\n{name}: {split_of(metrics)}, mean ± std over seeds (n); accuracies in percent",
        *([f"in every row: {' '.join(shared)}"] if (shared := section.shared()) else []),
        section_grid(section, metrics).terminal(),
        *section.remarks(),
        *([f"{hidden} more {'metric' if hidden == 1 else 'metrics'}: {more}"] if hidden and more else []),
    ])  # fmt: skip


def split_of(metrics: Iterable[str]) -> str:
    """The images that figures are of."""
    held_out = [metric.startswith(("val/", "val.")) for metric in metrics]
    return "validation images" if held_out and all(held_out) else "test split"


def record_grid(record: dict[str, Any]) -> Grid:
    """The rows of a record: its metrics, and the minutes of a run."""
    frame, rows = record_frame(record), record["rows"]
    names = [row["name"] for row in rows]
    metrics = [
        metric_column(frame, metric, names, head=record["metrics"].get(metric, metric)) for metric in frame.metrics
    ]
    return Grid([Column("method", names), *metrics, minutes_column(rows)])


def minutes_column(rows: Sequence[dict[str, Any]]) -> Column:
    """Mean minutes of a run."""
    own = [[run["minutes"] for run in row["runs"]] for row in rows]
    return Column("minutes", [f"{mean(minutes):.1f}" if minutes else "" for minutes in own])


def heading(record: dict[str, Any]) -> str:
    """What the figures of a record are."""
    return f"{record['title']}: {split_of(record['metrics'])}, mean ± std (n seeds), accuracies in percent."


def facts(record: dict[str, Any], *, searched: Sequence[float] = ()) -> list[tuple[str, str]]:
    """What the runs were, taken from the runs, as (term, text): settings, commit, dates, device, versions, minutes.

    Args:
        searched: minutes of further runs, of a search.
    """
    changed = [("changed in every row", " ".join(record["extra"]))] if record["extra"] else []
    if not _runs(record):
        return [("runs", "none is finished"), *changed]
    places = [("run on", _environment(environment)) for environment in record["environments"]]
    return [("runs", runs_and_minutes(record, searched)), *changed, *settings_of_runs(record), *places]


def facts_table(record: dict[str, Any], *, searched: Sequence[float] = ()) -> str:
    """`facts`, not padded: one long value would make every line wrap in a terminal."""
    lines = [f"| {term} | {text.replace('|', BAR)} |" for term, text in facts(record, searched=searched)]
    return "\n".join(["| what was run | |", "|---|---|", *lines])


def settings_of_runs(record: dict[str, Any]) -> list[tuple[str, str]]:
    """(setting, its values over the runs)."""
    runs = _runs(record)
    keys = dict.fromkeys(key for run in runs for key in run["settings"])
    return [(key, _list(list(dict.fromkeys(run["settings"].get(key, "none") for run in runs)))) for key in keys]


def runs_and_minutes(record: dict[str, Any], searched: Sequence[float] = ()) -> str:
    """How many runs, when, and how long they trained and evaluated."""
    runs = _runs(record)
    dates = sorted({run["date"] for run in runs if run["date"]})
    when = f" on {dates[0]}" if len(dates) == 1 else f" from {dates[0]} to {dates[-1]}" if dates else ""
    minutes = sum(run["minutes"] for run in runs) + sum(searched)
    beside = f", {len(searched)} of them in the search," if searched else ""
    n = len(runs) + len(searched)
    of_all = f"{n} run{'' if n == 1 else 's'}{beside}{when}"
    return f"{of_all}, {minutes:.1f} minutes of training and evaluation, without starts"


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
    pairs = dict.fromkeys(pair for known in record["protocols"] for pair in known.items())
    return [pair for pair in pairs if any(f"{name}_".startswith(f"{pair[0]}_") for name in names)]
