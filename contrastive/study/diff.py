"""Compare finished runs: the settings in which they differ, their metrics, their curves in one picture."""

import argparse
import os
from pathlib import Path
from typing import Any

import pandas as pd

from contrastive.config.identity import option_name
from contrastive.errors import ConfigError
from contrastive.files import write_text
from contrastive.study.claims import interval_text, judge
from contrastive.study.curves import curve, label, over_seeds, read_points
from contrastive.study.frame import Frame, add_metrics, read_frame
from contrastive.study.names import setting_text
from contrastive.study.palette import colors_of
from contrastive.study.render.plot import add_legend, new_figure, plot_mean, write_figure
from contrastive.text import format_grid, printable, show, spread

LETTERS = "ABCDEF"  # more columns, or curves, nobody reads side by side
N_NAMED = 8  # names in an error
USUAL_CURVES = ("test/knn_top1", "train/loss")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", nargs="+", type=Path, metavar="RUN", help="run directories, or folders of runs")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="of these rows, such as nt_xent 'nt_xent epochs=3'")
    add_metrics(parser)
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


def print_differences(arguments: argparse.Namespace) -> int:
    """Compare finished runs: the settings in which they differ, their metrics, their curves in one picture.

    Runs that differ in nothing but the seed are one column. A difference is to the first column. From three seeds that
    both have on one kind of processor it gets a 95 % interval, over seeds and test images, and a verdict.
    """
    out: Path | None = arguments.out
    if out is not None and out.suffix not in (".md", ".png"):
        raise ConfigError(f"-o {out} is neither .md nor .png: try -o {out.with_suffix('.md')}")
    frame = chosen_rows(one_section(read_frame(arguments.folders)), arguments.only)
    text = "\n".join([comparison(frame, frame.chosen(arguments.metric)), *map(printable, frame.notes)])
    if out is None:
        show(f"{text}\n\nwith curves: add -o diff.md")
        return 0
    picture = out.with_suffix(".png")
    draw_curves(frame, arguments.curves or usual_curves(frame), picture)
    if out.suffix == ".md":
        write_text(out, f"{text}\n\n![Curves, mean and standard deviation over seeds]({picture.name})\n")
    else:
        show(text)
    print(f"written: {', '.join(str(path) for path in dict.fromkeys((out, picture)))}")
    return 0


def one_section(frame: Frame) -> Frame:
    """The frame with the dataset in front of each name, if there are several."""
    if frame.table["dataset"].nunique() < 2:
        return frame
    table = frame.table.copy()
    table["name"] = table["dataset"] + " " + table["name"]
    table["words"] = [(dataset, *words) for dataset, words in zip(table["dataset"], table["words"], strict=True)]
    return Frame(table=table, metrics=frame.metrics, notes=frame.notes)


def chosen_rows(frame: Frame, only: list[str] | None) -> Frame:
    """The rows to compare, in the order of the names, or else of the folders.

    Raises:
        ConfigError: a name is that of no row, there is a single row, or there are more than can be read.
    """
    rows, shown = frame.rows, frame.shown()
    full = {short: name for name, short in shown.items()} | {name: name for name in rows}
    known = ", ".join([*shown.values()][:N_NAMED])
    known += f" and {len(rows) - N_NAMED} more" if len(rows) > N_NAMED else ""
    if unknown := [name for name in only or () if name not in full]:
        example = next(iter(shown.values()))
        raise ConfigError(f"no runs are called {unknown[0]}, known are {known}: try --only '{example}'")
    chosen = list(dict.fromkeys(full[name] for name in only or rows))
    if len(chosen) < 2:
        raise ConfigError("all these runs have one configuration: try a second run directory, or the folder of a sweep")
    if len(chosen) > len(LETTERS):
        example = " ".join(f"'{shown[name]}'" for name in chosen[:2])
        raise ConfigError(
            f"{len(chosen)} configurations are too many side by side: {known}: try --only {example}, at most "
            f"{len(LETTERS)} of them, or python -m contrastive report table, which lists all"
        )
    return Frame(table=pd.concat([rows[name] for name in chosen]), metrics=frame.metrics, notes=frame.notes)


def comparison(frame: Frame, metrics: list[str]) -> str:
    """The Markdown: which runs, the settings that differ, the metrics."""
    rows, shown, shared = frame.rows, frame.shown(), frame.shared()
    letters = dict(zip(rows, LETTERS, strict=False))
    named = [["", "runs", "directories"], *([letters[name], shown[name], places(own)] for name, own in rows.items())]
    settings = [["setting", *letters.values()], *differing_settings([own["settings"].iloc[0] for own in rows.values()])]
    first, *others = rows
    claims = [
        {"better": name, "worse": first, "metric": metric, "gap": 0.0}
        for metric in metrics for name in others if frame.values(name, metric) and frame.values(first, metric)
    ]  # fmt: skip
    judged = {(claim["better"], claim["metric"]): claim for claim in judge(frame, claims, two_sided=True)}
    figures = [["test split", *letters.values(), *(f"{letters[name]} - {letters[first]}" for name in others)]]
    for metric in metrics:
        cells = [spread(frame.values(name, metric)) for name in rows]
        figures.append([metric, *cells, *(effect_text(judged.get((name, metric))) for name in others)])
    return "\n\n".join([
        "\n".join([*([f"in every row: {' '.join(shared)}"] if shared else []), format_grid(named)]),
        format_grid(settings),
        "\n".join([
            "Mean ± std over seeds (n), accuracies in percent.",
            "Differences with 95 % intervals over common seeds and test images, from three seeds on.",
            f"better, worse: significant after Holm's correction for {len(judged)} comparisons; undecided otherwise.",
        ]),
        "\n".join([format_grid(figures), *frame.remarks()]),
    ])  # fmt: skip


def effect_text(claim: dict[str, Any] | None) -> str:
    """`+1.20 [+0.31, +2.09] better`; of fewer than three common seeds the difference alone."""
    if claim is None or claim["effect"] is None:
        return "-"
    verdict = {"holds": " better", "does not hold": " worse"}.get(claim["verdict"], " undecided")
    return f"{interval_text(claim)}{verdict if claim['low'] is not None else ''}"


def places(own: "pd.DataFrame") -> str:
    """Where the runs of a row are: their common folder and how many there are."""
    paths = [path for paths in own["paths"] for path in paths]
    return str(paths[0]) if len(paths) == 1 else f"{os.path.commonpath(paths)} ({len(paths)} runs)"


def differing_settings(configs: list[dict[str, Any]]) -> list[list[str]]:
    """A line for each setting that differs; of a component that was replaced or left out, for the component alone."""
    keys = sorted({key for config in configs for key in config})
    replaced: list[str] = []
    lines = []
    for key in sorted(keys, key=lambda key: (not key.endswith("._target_"), key)):
        owner = key.removesuffix("._target_")
        values = [setting_text(config[key]) if key in config else "-" for config in configs]
        if len(set(values)) == 1 or any(f"{key}.".startswith(f"{other}.") for other in replaced):
            continue
        if owner != key:
            replaced.append(owner)
            values = [value if value == "-" else option_name(value) for value in values]
        elif any(other.startswith(f"{key}.") for other in keys):  # null or {}, which the keys below it tell
            continue
        lines.append([owner, *values])
    return sorted(lines)


def usual_curves(frame: Frame) -> list[str]:
    """The usual curves that some run has.

    Raises:
        ConfigError: there is none.
    """
    paths = [path for paths in frame.table["paths"] for path in paths]
    logged = {key for path in paths for point in read_points(path) for key in point}
    if not logged.intersection(USUAL_CURVES):
        raise ConfigError("these runs share no usual curve: try --curves with a key of metrics.jsonl")
    return [key for key in USUAL_CURVES if key in logged]


def mean_curve(own: "pd.DataFrame", key: str) -> dict[str, Any] | None:
    """{epoch, mean, std, n} over the seeds of a row that have the curve, at the epochs that all of these logged."""
    found = [next((c for path in paths if (c := curve(path, key))[0]), ([], [])) for paths in own["paths"]]
    curves = [{"epoch": epochs, "value": values} for epochs, values in found if epochs]
    return over_seeds(curves) if curves else None


def draw_curves(frame: Frame, keys: list[str], out: Path) -> None:
    """A panel for each metric, a line for each row: the mean over seeds in a band of ± one standard deviation.

    Raises:
        ConfigError: matplotlib is not installed, or no run has the metric.
    """
    shown = frame.shown()
    colors = colors_of(list(frame.rows))
    figure, panels = new_figure(len(keys))
    for panel, key in zip(panels, keys, strict=True):
        panel.set(xlabel="epoch", ylabel=label(key))
        for letter, (name, own) in zip(LETTERS, frame.rows.items(), strict=False):
            if points := mean_curve(own, key):
                text = f"{letter}: {shown[name]}"
                plot_mean(panel, points["epoch"], points["mean"], points["std"], color=colors[name], name=text)
        if not panel.lines:
            raise ConfigError(f"no run has a curve of {key}: try --curves train/loss")
    add_legend(figure, panels)
    write_figure(figure, [out])
