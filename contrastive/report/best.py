"""Print the best configurations of finished runs by the mean of one figure over seeds.

Figures on the validation images decide; where there are none, those on the test split do, and the first line says so.
"""

import argparse
from pathlib import Path
from statistics import mean

from contrastive.errors import ConfigError
from contrastive.report.groups import Group, metric_names, ranked, read_groups
from contrastive.text import format_grid, spread


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("outputs")], metavar="FOLDER")
    parser.add_argument("--metric", default="linear_top1", help="such as knn_top1; default: linear_top1")
    parser.add_argument("--top", type=int, default=5, metavar="N", help="configurations to show; default: 5")


def run(arguments: argparse.Namespace) -> int:
    if arguments.top < 1:
        raise ConfigError(f"--top counts configurations, got {arguments.top}: try --top 5")
    groups, repeated = read_groups(arguments.folders)
    print("\n".join([best(groups, arguments.metric, arguments.top), *repeated]))
    return 0


def best(groups: list[Group], metric: str, top: int) -> str:
    """A table of the best groups, and the run directories of the first."""
    split = "val" if metric in metric_names(groups, "val") else "test"
    first, *_ = order = ranked(groups, metric, split)
    selected = {
        "val": f"Best by {metric} on the validation images, mean ± std over seeds (n)",
        "test": f"Best by {metric} on the TEST split: no run has it on validation images, so the first figure is "
        "optimistic; mean ± std over seeds (n)",
    }
    columns = ["val", "test"] if split == "val" else ["test"]
    grid = [["", *(f"{metric} ({column})" for column in columns), "settings"]]
    for place, group in enumerate(order[:top], 1):
        grid.append([str(place), *(spread(group.values(column, metric)) for column in columns), group.name])
    left_out = sum(not group.values(split, metric) for group in groups)
    lines = [f"\n{selected[split]}:", format_grid(grid)]
    if left_out:
        lines.append(f"{left_out} of {len(groups)} configurations have no such figure")
    lines += ["", f"runs of the first, {mean(first.values(split, metric)):.2f}:"]
    return "\n".join([*lines, *(f"  {path}" for _, path in sorted(first.runs.items()))])
