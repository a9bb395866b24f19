"""Tables of finished runs, mean ± std over seeds, a section for each dataset; and the best of them by one metric."""

import argparse
from pathlib import Path
from statistics import mean

from contrastive.errors import ConfigError
from contrastive.report.runs import Runs, read_runs
from contrastive.tables.page import booktabs, escape
from contrastive.text import format_grid, spread

HEADING = "test split, mean ± std over seeds (n); accuracies in percent"


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("outputs")], metavar="FOLDER")
    parser.add_argument("--format", choices=("md", "csv", "latex"), default="md")
    add_metric_argument(parser)
    parser.add_argument("--sort", metavar="METRIC", help="best first by the mean of this figure, such as linear_top1")


def add_metric_argument(parser: argparse.ArgumentParser) -> None:
    """The choice of columns."""
    parser.add_argument(
        "--metric",
        nargs="+",
        metavar="METRIC",
        help="show only these, such as knn_top1 linear_conflicting_top1; default: all but details of bias groups",
    )


def print_table(arguments: argparse.Namespace) -> int:
    """Print a table of finished runs for each dataset, a row for runs that differ in nothing but the seed.

    Rows are named by the settings that tell them apart. Figures of later evaluations stand beside those of the run; on
    another dataset they are called dataset:metric. The CSV has the settings in columns, too. On data with bias labels
    the accuracy of the worst (class, bias) group stands beside the others, as knn_worst_group_top1;
    knn_aligned_top1, knn_conflicting_top1, knn_group_mean_top1 and knn_top1/CLASS/BIAS are shown by --metric.
    """
    runs = read_runs(arguments.folders)
    metrics = runs.columns(arguments.metric) if arguments.metric else None
    sections = {name: own.sorted_by_name() for name, own in runs.sections.items()}
    if arguments.sort:
        runs.check_metric(arguments.sort)
        sections = {name: own.sorted_by(arguments.sort) for name, own in sections.items()}
    if arguments.format == "csv":
        print(as_csv(sections, metrics), end="")
    elif arguments.format == "latex":
        print("\n\n".join(as_latex(name, own, metrics) for name, own in sections.items()))
    else:
        for name, own in sections.items():
            print("\n".join([f"\n{name}: {HEADING}", format_grid(grid(own, metrics)), *own.mixed()]))
        print_notes(runs)
    return 0


def print_notes(runs: Runs) -> None:
    """What is not counted, below the tables."""
    if runs.notes:
        print("\n" + "\n".join(runs.notes))


def add_best_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("outputs")], metavar="FOLDER")
    parser.add_argument("--metric", default="linear_top1", help="such as knn_top1; default: linear_top1")
    parser.add_argument("--top", type=int, default=5, metavar="N", help="configurations to show; default: 5")


def print_best(arguments: argparse.Namespace) -> int:
    """Print the best configurations of finished runs on each dataset by the mean of one metric over seeds.

    Figures on the validation images decide; where there are none, those on the test split do, and the first line says
    so.
    """
    if arguments.top < 1:
        raise ConfigError(f"--top counts configurations, got {arguments.top}: try --top 5")
    runs = read_runs(arguments.folders)
    split = "val" if arguments.metric in runs.metrics("val") else "test"
    runs.check_metric(arguments.metric, split)
    for name, section in runs.sections.items():
        print(best(name, section, arguments.metric, arguments.top))
    print_notes(runs)
    return 0


def grid(section: Runs, metrics: list[str] | None = None) -> list[list[str]]:
    """The figures on the test split as cells of text, the head first."""
    metrics = metrics or section.columns()
    lines = [[row.name, *(spread(list(section.values(row, m).values())) for m in metrics)] for row in section.rows]
    return [["runs", *metrics], *lines]


def as_csv(sections: dict[str, Runs], metrics: list[str] | None = None) -> str:
    """A line for each row with the settings that differ; of each metric the mean, sample standard deviation and n."""
    import pandas as pd  # late: only this format needs what takes half a second

    rows = [row for section in sections.values() for row in section.rows]
    lines = pd.DataFrame([row.settings for row in rows], columns=Runs(rows=rows).differing, dtype=object).fillna("")
    lines.index = pd.MultiIndex.from_tuples([(row.section, row.name) for row in rows], names=["dataset", "runs"])
    for metric in metrics or Runs(rows=rows).columns():
        values = [pd.Series(row.figures.get(("test", metric), {}), dtype=float) for row in rows]
        numbers = {metric: "mean", f"{metric}_std": "std", f"{metric}_n": "count"}
        lines = lines.assign(**{name: [own.agg(how) for own in values] for name, how in numbers.items()})
    return str(lines.to_csv(float_format="%.4f"))


def as_latex(name: str, section: Runs, metrics: list[str] | None = None) -> str:
    r"""A booktabs table; the document needs \usepackage{booktabs}."""
    cells = grid(section, metrics)
    return f"% {escape(f'{name}: {HEADING}')}\n{booktabs(cells, 'l' + 'r' * (len(cells[0]) - 1))}"


def best(name: str, section: Runs, metric: str, top: int) -> str:
    """A table of the best rows of a section, and the run directories of the first."""
    split = "val" if metric in section.metrics("val") else "test"
    if metric not in section.metrics(split):
        return f"\n{name}: no run has {metric}"
    order = section.sorted_by(metric, split).rows
    columns = ["val", "test"] if split == "val" else ["test"]
    cells = [["", *(f"{metric} ({column})" for column in columns), "runs"]]
    for place, row in enumerate(order[:top], 1):
        figures = [spread(list(section.values(row, metric, column).values())) for column in columns]
        cells.append([str(place), *figures, row.name])
    without = sum(not section.values(row, metric, split) for row in order)
    selected = {
        "val": f"best by {metric} on the validation images, mean ± std over seeds (n)",
        "test": f"best by {metric} on the TEST split: no run has it on validation images, so the first figure is "
        "optimistic; mean ± std over seeds (n)",
    }
    return "\n".join([
        f"\n{name}: {selected[split]}",
        format_grid(cells),
        *([f"{without} of {len(order)} configurations have no such figure"] if without else []),
        *section.mixed(),
        "",
        f"runs of the first, {mean(section.values(order[0], metric, split).values()):.2f}:",
        *(f"  {path}" for path in order[0].paths),
    ])  # fmt: skip
