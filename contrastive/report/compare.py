"""Compare finished runs: the settings in which they differ, their figures side by side, their curves in one picture."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from contrastive.errors import ConfigError
from contrastive.files import write_text
from contrastive.report.listing import add_metric_argument
from contrastive.report.plot import add_legend, new_figure, plot_mean, write_figure
from contrastive.report.runs import Row, Runs, read_runs
from contrastive.report.series import COLORS, label, over_seeds
from contrastive.tables.intervals import LEVEL, holm
from contrastive.tables.record import curve, read_points
from contrastive.tables.verdicts import MIN_SEEDS, interval_text, judge_claims
from contrastive.text import format_grid, spread

LETTERS = "ABCDEF"  # more columns, or curves, nobody reads side by side
N_NAMED = 8  # names in an error
USUAL_CURVES = ("test/knn_top1", "train/loss")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", nargs="+", type=Path, metavar="RUN", help="run directories, or folders of runs")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="of these rows, such as nt_xent 'nt_xent no blur'")
    add_metric_argument(parser)
    parser.add_argument(
        "-o",
        dest="out",
        type=Path,
        metavar="FILE",
        help="FILE.md: write the text there and the curves beside it; FILE.png: write the curves",
    )
    parser.add_argument(
        "--curves", nargs="+", metavar="KEY", help="such as test/knn_top1 train/loss, the default where they exist"
    )


def print_comparison(arguments: argparse.Namespace) -> int:
    """Compare finished runs: the settings in which they differ, their figures, their curves in one picture.

    Runs that differ in nothing but the seed are one column. A difference is to the first column, over the seeds that
    both have on one kind of processor; from three on it has an interval and is judged as the claims of a table are.
    """
    out: Path | None = arguments.out
    if out is not None and out.suffix not in (".md", ".png"):
        raise ConfigError(f"-o {out} is neither .md nor .png: try -o {out.with_suffix('.md')}")
    runs = read_runs(arguments.folders, by_dataset=False)
    runs = replace(runs, rows=chosen_rows(runs, arguments.only))
    text = "\n".join([comparison(runs, arguments.metric), *runs.notes])
    if out is None:
        print(f"{text}\n\nwith curves: add -o compare.md")
        return 0
    picture = out.with_suffix(".png")
    draw_curves(runs.rows, arguments.curves or usual_curves(runs.rows), picture)
    if out.suffix == ".md":
        write_text(out, f"{text}\n\n![Curves, mean and standard deviation over seeds]({picture.name})\n")
    else:
        print(text)
    print(f"written: {', '.join(str(path) for path in dict.fromkeys((out, picture)))}")
    return 0


def chosen_rows(runs: Runs, only: list[str] | None) -> list[Row]:
    """The rows to compare, in the order of the names, or else of the folders.

    Raises:
        ConfigError: a name is that of no row, there is a single row, or there are more than can be read.
    """
    rows = {row.name: row for row in runs.rows}
    known = ", ".join([*rows][:N_NAMED]) + (f" and {len(rows) - N_NAMED} more" if len(rows) > N_NAMED else "")
    if unknown := [name for name in only or () if name not in rows]:
        raise ConfigError(f"no runs are called {unknown[0]}, known are {known}: try --only '{next(iter(rows))}'")
    chosen = [rows[name] for name in dict.fromkeys(only or rows)]
    if len(chosen) < 2:
        raise ConfigError("all these runs have one configuration: try a second run directory, or the folder of a sweep")
    if len(chosen) > len(LETTERS):
        example = " ".join(f"'{row.name}'" for row in chosen[:2])
        raise ConfigError(
            f"{len(chosen)} configurations are too many side by side: {known}: try --only {example}, at most "
            f"{len(LETTERS)} of them, or python -m contrastive.report table, which lists all"
        )
    return chosen


def comparison(runs: Runs, metrics: list[str] | None = None) -> str:
    """The Markdown: which runs, the settings that differ, the figures."""
    rows, letters = runs.rows, LETTERS[: len(runs.rows)]
    named = [["", "runs", "directories"]]
    named += [[x, row.name, ", ".join(map(str, row.paths))] for x, row in zip(letters, rows, strict=True)]
    settings = [["setting", *letters]]
    for key in sorted({key for row in rows for key in row.settings}):
        values = [str(row.settings[key]) if key in row.settings else "-" for row in rows]
        settings += [[key, *values]] if len(set(values)) > 1 else []
    figures = [["test split", *letters, *(f"{letter} - A" for letter in letters[1:])]]
    metrics = runs.columns(metrics)
    judged, legend = differences(runs, metrics)
    for metric in metrics:
        cells = [spread(list(runs.values(row, metric).values())) for row in rows]
        if set(cells) != {"-"}:
            figures.append([metric, *cells, *(judged[row.name, metric] for row in rows[1:])])
    return "\n\n".join([
        format_grid(named),
        format_grid(settings),
        "Mean ± std over seeds (n), accuracies in percent:",
        "\n".join([format_grid(figures), *runs.mixed()]),
        legend,
    ])  # fmt: skip


def differences(runs: Runs, metrics: list[str]) -> tuple[dict[tuple[str, str], str], str]:
    """Each row against the first, judged as the claims of a table are, but in both directions.

    Returns:
        {(row, metric): `+1.20 [+0.31, +2.09] (3) *`}, and what that means.
    """
    first, *others = [row.name for row in runs.rows]
    claims = [{"better": name, "worse": first, "metric": metric, "gap": 0.0} for name in others for metric in metrics]
    processors = sorted({run.processor for row in runs.rows for own in row.runs.values() for run in own})
    judged = judge_claims({
        "claims": claims,
        "rows": [{"name": row.name, "published": {}, "runs": _as_recorded(row, processors)} for row in runs.rows],
        "environments": [{"device": processor} for processor in processors],
    })  # fmt: skip
    tested = [claim for claim in judged if claim["p"] is not None]
    corrected = holm([2 * min(claim["p"], 1 - claim["p"]) for claim in tested])  # two-sided
    significant = [claim for claim, p in zip(tested, corrected, strict=True) if p <= 1 - LEVEL]
    cells = {}
    for claim in judged:
        star = " *" if claim in significant else ""
        cells[claim["better"], claim["metric"]] = f"{interval_text(claim)} ({claim['n']}){star}" if claim["n"] else "-"
    legend = [
        f"Differences: means over the common seeds (n) on one kind of processor, with an interval from {MIN_SEEDS} on."
    ]
    if tested:
        by_seeds = {claim["metric"] for claim in judged if claim["over"] == "seeds"}
        by_images = [metric for metric in metrics if metric not in by_seeds]
        also = f"; those of {', '.join(by_images)} also for other test images" if by_images else ""
        legend += [
            f"The 95 % intervals allow for other seeds{also}.",
            f"* = significant: the two-sided p, corrected for the {len(tested)} tests of this table (Holm), is at most "
            f"{1 - LEVEL:.2g}.",
        ]
    return cells, "\n".join(legend)


def _as_recorded(row: Row, processors: list[str]) -> list[dict[str, Any]]:
    """What a judgement reads of the runs of a row."""
    return [
        {
            "seed": seed,
            "environment": processors.index(run.processor),
            "test": {
                metric: values[seed]
                for (split, metric), values in row.figures.items()
                if split == "test" and seed in values
            },
            "correct": run.files.result.get("correct", {}),
        }
        for seed, (run, *_) in row.runs.items()
    ]


def usual_curves(rows: list[Row]) -> list[str]:
    """The usual curves that some run has.

    Raises:
        ConfigError: there is none.
    """
    logged = {key for row in rows for path in row.paths for point in read_points(path) for key in point}
    if not logged.intersection(USUAL_CURVES):
        raise ConfigError("these runs share no usual curve: try --curves with a key of metrics.jsonl")
    return [key for key in USUAL_CURVES if key in logged]


def mean_curve(row: Row, key: str) -> dict[str, Any] | None:
    """{epoch, mean, std, n} over the seeds that have the curve, at the epochs that all of these logged."""
    by_seed = [[curve(run.path, key) for run in runs] for runs in row.runs.values()]
    found = [next((c for c in curves if c[0]), ([], [])) for curves in by_seed]
    curves = [{"epoch": epochs, "value": values} for epochs, values in found if epochs]
    return over_seeds(curves) if curves else None


def draw_curves(rows: list[Row], keys: list[str], out: Path) -> None:
    """A panel for each metric, a line for each row: the mean over seeds in a band of ± one standard deviation.

    Raises:
        ConfigError: matplotlib is not installed, or no run has the metric.
    """
    figure, panels = new_figure(len(keys))
    for panel, key in zip(panels, keys, strict=True):
        panel.set(xlabel="epoch", ylabel=label(key))
        for color, (letter, row) in zip(COLORS, zip(LETTERS, rows, strict=False), strict=False):
            if points := mean_curve(row, key):
                name = f"{letter}: {row.name}"
                plot_mean(panel, points["epoch"], points["mean"], points["std"], color=color, name=name)
        if not panel.lines:
            raise ConfigError(f"no run has a curve of {key}: try --curves train/loss")
    add_legend(figure, panels)
    write_figure(figure, [out])
