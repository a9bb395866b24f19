"""Print a table of finished runs, mean ± std over seeds, a row for each combination of the settings that differ.

Figures of later evaluations stand beside those of the run; on another dataset they are called dataset:metric.
"""

import argparse
import csv
import io
from pathlib import Path
from statistics import mean, stdev

from contrastive.report.groups import Group, metric_names, plain, ranked, read_groups, setting_names
from contrastive.tables.page import booktabs, escape
from contrastive.text import format_grid, spread

HEADING = "Test split, mean ± std over seeds (n); accuracies in percent"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("outputs")], metavar="FOLDER")
    parser.add_argument("--format", choices=("md", "csv", "latex"), default="md")
    parser.add_argument("--sort", metavar="METRIC", help="best first by the mean of this figure, such as linear_top1")


def run(arguments: argparse.Namespace) -> int:
    groups, repeated = read_groups(arguments.folders)
    if arguments.sort:
        groups = ranked(groups, arguments.sort, "test")
    if arguments.format == "csv":
        print(as_csv(groups), end="")
    elif arguments.format == "latex":
        print(as_latex(groups))
    else:
        print("\n".join([f"\n{HEADING}:", format_grid(grid(groups)), *repeated]))
    return 0


def grid(groups: list[Group]) -> list[list[str]]:
    """The table as cells of text, the head first."""
    settings, metrics = setting_names(groups), metric_names(groups)
    rows = [[*(settings or ["runs"]), *metrics]]
    for group in groups:
        cells = [group.settings.get(key, "") for key in settings] or [group.name]
        rows.append([*cells, *(spread(group.values("test", metric)) for metric in metrics)])
    return rows


def as_csv(groups: list[Group]) -> str:
    """A line for each group; of each metric the mean, the sample standard deviation and the number of runs."""
    settings, metrics, text = setting_names(groups), metric_names(groups), io.StringIO()
    columns = [f"{metric}{suffix}" for metric in metrics for suffix in ("", "_std", "_n")]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*settings, *columns])
    for group in groups:
        cells: list[str] = []
        for metric in metrics:
            values = group.values("test", metric)
            std = stdev(values) if len(values) > 1 else None
            cells += [plain(mean(values) if values else None), plain(std), str(len(values))]
        writer.writerow([*(group.settings.get(key, "") for key in settings), *cells])
    return text.getvalue()


def as_latex(groups: list[Group]) -> str:
    r"""A booktabs table; the document needs \usepackage{booktabs}."""
    table, n_left = grid(groups), max(1, len(setting_names(groups)))
    return f"% {escape(HEADING)}\n{booktabs(table, 'l' * n_left + 'r' * (len(table[0]) - n_left))}"
