"""Print a table of finished runs for each dataset, a row for runs that differ in nothing but the seed.

    python -m contrastive report outputs/digits --metric linear_top1 knn_top1 --against nt_xent

A row is named by the overrides that were typed, method first; those that all rows share stand once above the table.
Metrics of later evaluations stand beside those of the run; on another dataset they are called dataset:metric. The CSV
has every metric, and the settings in columns, too. On data with bias labels the worst (class, bias) group stands beside
the others; knn_aligned_top1, knn_conflicting_top1, knn_group_mean_top1 and knn_top1/CLASS/BIAS are shown by --metric.
With --against ROW every other row is judged against that one.
"""

from pathlib import Path

from contrastive.config.arguments import Parser, answering
from contrastive.errors import ConfigError
from contrastive.report.facts import metric_column, section_grid, section_text, split_of
from contrastive.report.frame import Frame, add_metrics, read_frame
from contrastive.report.grid import N_COLUMNS, Column, Grid, as_csv
from contrastive.report.judge import effects_against
from contrastive.text import counted, printable, show


@answering
def main(words: list[str]) -> int:
    """Print the tables; returns the exit code."""
    parser = Parser("report", __doc__)
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("outputs")], metavar="FOLDER",
                        help="folders of runs, or tables (JSON); default: outputs")  # fmt: skip
    parser.add_argument("--format", choices=("md", "csv", "latex"), default="md")
    add_metrics(parser)
    parser.add_argument("--sort", metavar="METRIC", help="best first by the mean of this metric, as val/linear_top1")
    parser.add_argument("--against", metavar="ROW", help="judge every other row against this one, such as nt_xent")
    arguments = parser.parse_args(words)
    frame, against = read_frame(arguments.folders), arguments.against
    by = frame.metric(arguments.sort) if arguments.sort else None
    columns = frame.chosen(arguments.metric) if arguments.metric else []
    if against and arguments.format != "md":
        raise ConfigError("--against judges rows in Markdown alone: try without --format")
    if against and not any(against in section.shown().values() for section in frame.sections.values()):
        known = [name for section in frame.sections.values() for name in section.shown().values()]
        raise ConfigError(f"no row is called {against}, known are {', '.join(known)}: try --against '{known[0]}'")
    if arguments.format == "csv":
        show(frame_csv(frame, columns or frame.chosen(["all"])), end="")
        return 0
    for name, section in frame.sections.items():
        ordered = section.by_metric(by) if by in section.metrics else section.by_name()
        metrics = [m for m in columns if m in section.metrics] or ordered.chosen(None)
        metrics = list(dict.fromkeys([*metrics, *([by] if by in section.metrics else [])]))
        if arguments.format == "latex":
            show(section_latex(name, ordered, metrics if columns else metrics[:N_COLUMNS]), end="\n\n")
        else:
            more = "" if columns else "add --metric all, or names"
            show(section_text(name, ordered, metrics, more=more))
            if against in ordered.shown().values():
                show(effects_text(ordered, metrics, against))
    if arguments.format == "md" and frame.notes:  # what is not counted
        show("\n" + "\n".join(map(printable, frame.notes)))
    return 0


def effects_text(section: Frame, metrics: list[str], against: str) -> str:
    """How far every other row is from the one named, by each metric, and what that says."""
    grid, judged = effects_against(section, metrics, against)
    known = list(dict.fromkeys(claim["metric"] for claim in judged if "images" in claim["over"]))
    of = "" if {claim["metric"] for claim in judged} == {*known} else f" (of {' and '.join(known)} alone)"
    return (
        f"\n{grid.terminal()}\nMean differences with 95 % intervals over common seeds"
        f"{f' and test images{of}' if known else ''}, from three seeds on. better, worse: significant after Holm's "
        f"correction for {counted(len(judged), 'comparison')}. A pair shares its processor, precision and torch."
    )


def section_latex(name: str, section: Frame, metrics: list[str]) -> str:
    """A table for a paper."""
    caption = f"{name}: mean ± std over seeds (n), {split_of(metrics)}, accuracies in percent."
    return section_grid(section, metrics).latex(caption=caption, label=name)


def frame_csv(frame: Frame, metrics: list[str]) -> str:
    """A line for each row of each dataset, with the settings that differ."""
    grids = []
    for dataset, section in frame.sections.items():
        names = list(section.rows)
        settings = [own["settings"].iloc[0] for own in section.rows.values()]
        differing = {key: [own.get(key, "") for own in settings] for key in frame.differing}
        columns = {"dataset": [dataset] * len(names), "runs": names} | differing
        figures = [metric_column(section, metric, names) for metric in metrics]
        grids.append(Grid([*(Column(key, own) for key, own in columns.items()), *figures]))
    return as_csv(*grids)
