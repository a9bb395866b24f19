"""Compare finished runs: the settings in which they differ, their figures side by side, their curves in one picture.

Runs that differ in nothing but the seed are one column. A difference is to the first column; from two seeds on it has a
95 % t-interval, paired where both have the same seeds.
"""

import argparse
from pathlib import Path
from statistics import mean

from contrastive.errors import ConfigError
from contrastive.files import write_text
from contrastive.report.compare_curves import default_keys, draw_curves
from contrastive.report.groups import Group, metric_names, read_groups, setting_names
from contrastive.tables.verdicts import paired_test, welch_interval
from contrastive.text import format_grid, spread

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", nargs="+", type=Path, metavar="RUN", help="run directories, or folders of runs")
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


def run(arguments: argparse.Namespace) -> int:
    out: Path | None = arguments.out
    if out is not None and out.suffix not in (".md", ".png"):
        raise ConfigError(f"-o {out} is neither .md nor .png: try -o {out.with_suffix('.md')}")
    groups, repeated = read_groups(arguments.folders)
    groups.sort(key=lambda group: _place(group, arguments.folders))
    if len(groups) < 2:
        raise ConfigError("all these runs have one configuration: try a second run directory, or the folder of a sweep")
    if len(groups) > len(LETTERS):
        raise ConfigError(f"{len(groups)} configurations are too many columns: try python -m contrastive.report table")
    text = "\n".join([comparison(groups), *repeated])
    if out is None:
        print(f"{text}\n\nwith curves: add -o compare.md")
        return 0
    picture = out.with_suffix(".png")
    named = dict(zip(LETTERS, groups, strict=False))
    draw_curves(
        {f"{letter}: {group.name}": group for letter, group in named.items()}, _keys(arguments, groups), picture
    )
    if out.suffix == ".md":
        write_text(out, f"{text}\n\n![Curves, mean and standard deviation over seeds]({picture.name})\n")
    else:
        print(text)
    print(f"written: {', '.join(str(path) for path in dict.fromkeys((out, picture)))}")
    return 0


def _place(group: Group, folders: list[Path]) -> int:
    """The first of the folders as typed that holds a run of the group: columns come in that order."""
    return min(i for i, folder in enumerate(folders) for run in group.runs.values() if run.is_relative_to(folder))


def _keys(arguments: argparse.Namespace, groups: list[Group]) -> list[str]:
    return list(arguments.curves or default_keys(groups))


def comparison(groups: list[Group]) -> str:
    """The Markdown: runs, settings that differ, figures."""
    letters = LETTERS[: len(groups)]
    runs = [
        [letter, ", ".join(str(path) for path in group.runs.values())]
        for letter, group in zip(letters, groups, strict=True)
    ]
    settings = [["setting", *letters]]
    for key in setting_names(groups):
        settings.append([key, *(group.settings.get(key, "-") for group in groups)])
    figures = [["test split", *letters, *(f"{letter} - A" for letter in letters[1:])]]
    for metric in metric_names(groups):
        cells = [spread(group.values("test", metric)) for group in groups]
        figures.append([metric, *cells, *(difference(groups[0], group, metric) for group in groups[1:])])
    return "\n\n".join([
        format_grid([["", "runs"], *runs]),
        format_grid(settings),
        "Mean ± std over seeds (n), accuracies in percent; differences with their 95 % t-interval:",
        format_grid(figures),
    ])  # fmt: skip


def difference(first: Group, other: Group, metric: str) -> str:
    """`+1.20 [+0.31, +2.09]`: the difference of the means and its interval, which needs two seeds of each."""
    a, b = first.by_seed("test", metric), other.by_seed("test", metric)
    if not a or not b:
        return "-"
    text = f"{mean(b.values()) - mean(a.values()):+.2f}"
    if min(len(a), len(b)) < 2:
        return text
    if a.keys() == b.keys():
        low, high, _ = paired_test([b[seed] - a[seed] for seed in a])
    else:
        low, high = welch_interval(list(b.values()), list(a.values()))
    return f"{text} [{low:+.2f}, {high:+.2f}]{'' if low <= 0 <= high else ' *'}"
