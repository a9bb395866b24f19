"""Grids of a frame's rows as text, and in the formats of others."""

import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from statistics import mean

from contrastive.study.frame import Frame, lower_is_better
from contrastive.study.judge import MIN_SEEDS
from contrastive.text import columns, format_grid, spread, spreadsheet


def grid(section: Frame, metrics: Sequence[str]) -> list[list[str]]:
    """The rows of a section as cells of text, the head first."""
    shown = section.shown()
    return [
        ["runs", *metrics],
        *([shown[name], *(spread(section.values(name, metric)) for metric in metrics)] for name in section.rows),
    ]


def section_text(name: str, section: Frame, metrics: Sequence[str], *, more: str = "") -> str:
    """A table for the terminal: what all its rows share stands above, what else a reader must know below.

    Args:
        more: the command that shows the other metrics.
    """
    hidden = len(set(section.test_metrics()) - set(metrics))
    return "\n".join([
        f"\n{name}: {split_of(metrics)}, mean ± std over seeds (n); accuracies in percent",
        *([f"in every row: {' '.join(shared)}"] if (shared := section.shared()) else []),
        terminal_grid(grid(section, metrics), best=best_cells(section, metrics, list(section.rows))),
        *section.remarks(),
        *([f"{hidden} more {'metric' if hidden == 1 else 'metrics'}: {more}"] if hidden and more else []),
    ])  # fmt: skip


def split_of(metrics: Iterable[str]) -> str:
    """The images that figures are of."""
    held_out = [metric.startswith(("val/", "val.")) for metric in metrics]
    return "validation images" if held_out and all(held_out) else "test split"


def terminal_grid(rows: list[list[str]], *, best: Sequence[tuple[int, int]] = ()) -> str:
    """Columns that fit a terminal, the best cells bold; a Markdown table in a pipe."""
    if not sys.stdout.isatty():
        return format_grid(rows)
    return columns(rows, colors=dict.fromkeys(best, "bold"), width=shutil.get_terminal_size().columns)


def best_cells(
    frame: Frame, metrics: Sequence[str], names: Sequence[str], points: Sequence[str] = ()
) -> list[tuple[int, int]]:
    """(row, column) of the best mean of each metric in a grid of these names, counted with the head.

    Only rows of three seeds and more are compared, with those of as many epochs: a single run, or one that trained
    longer, is not better.

    Args:
        points: of a table's grid, one for each name, each with a best row of its own; none = all rows are compared.
    """
    best = []
    rows: dict[tuple[str, str], dict[int, str]] = {}
    for i, (name, point) in enumerate(zip(names, points or [""] * len(names), strict=True), start=1):
        if name in frame.rows:
            rows.setdefault((point, str(frame.rows[name]["settings"].iloc[0].get("epochs"))), {})[i] = name
    for own, (j, metric) in product(rows.values(), enumerate(metrics, start=1)):
        means = {i: mean(v) for i, name in own.items() if len(v := frame.values(name, metric)) >= MIN_SEEDS}
        if len(means) > 1:
            top = (min if lower_is_better(metric) else max)(means.values())
            best += [(i, j) for i, value in means.items() if f"{value:.2f}" == f"{top:.2f}"]
    return best


def as_csv(frame: Frame, metrics: Sequence[str], beside: Mapping[str, Mapping[str, str]] | None = None) -> str:
    """A line for each row with the settings that differ; of each metric the mean, sample standard deviation and n.

    Args:
        beside: {name of a row: further columns}.
    """
    import pandas as pd

    differing, lines = frame.differing, []
    names = frame.table[["dataset", "name"]].drop_duplicates().itertuples(index=False)
    for dataset, name in [*names, *(("", name) for name in beside or {} if name not in set(frame.table["name"]))]:
        own = frame.table[(frame.table["dataset"] == dataset) & (frame.table["name"] == name)]
        settings = own["settings"].iloc[0] if len(own) else {}
        line = {"dataset": dataset, "runs": name} | {key: settings.get(key, "") for key in differing}
        for metric in metrics:
            values = own[metric].dropna()
            line |= {metric: values.mean(), f"{metric}_std": values.std(), f"{metric}_n": len(values)}
        lines.append(line | dict((beside or {}).get(name, {})))
    return spreadsheet(pd.DataFrame(lines), float_format="%.4f")
