"""The curves of several groups of runs in one picture."""

from pathlib import Path
from typing import Any

from contrastive.errors import ConfigError
from contrastive.report.groups import Group
from contrastive.report.plot import add_legend, new_figure, plot_mean, write_figure
from contrastive.report.series import COLORS, label, over_seeds
from contrastive.tables.record import curve, read_points

MAX_LABEL = 150  # characters of a name in the legend
USUAL = ("test/knn_top1", "train/loss")


def default_keys(groups: list[Group]) -> list[str]:
    """The usual curves that some run has."""
    keys = {key for group in groups for run in group.runs.values() for point in read_points(run) for key in point}
    return [key for key in USUAL if key in keys]


def group_curve(group: Group, key: str) -> dict[str, Any] | None:
    """{epoch, mean, std, n} at every epoch that all runs with this curve logged; None if no run has it."""
    pairs = [curve(run, key) for run in group.runs.values()]
    curves = [{"epoch": epochs, "value": values} for epochs, values in pairs if epochs]
    return over_seeds(curves) if curves else None


def draw_curves(groups: dict[str, Group], keys: list[str], out: Path) -> None:
    """A panel for each metric, a line for each group: the mean over seeds in a band of ± one standard deviation.

    Raises:
        ConfigError: matplotlib is not installed, or no run has the metric.
    """
    if not keys:
        raise ConfigError("these runs share no usual curve: try --curves with a key of metrics.jsonl")
    figure, panels = new_figure(len(keys))
    for panel, key in zip(panels, keys, strict=True):
        curves = {name: group_curve(group, key) for name, group in groups.items()}
        if not any(curves.values()):
            raise ConfigError(f"no run has a curve of {key}: try --curves train/loss")
        panel.set(xlabel="epoch", ylabel=label(key))
        for i, (name, points) in enumerate(curves.items()):
            if points is not None:
                epoch, mean, std = (points[column] for column in ("epoch", "mean", "std"))
                plot_mean(panel, epoch, mean, std, color=COLORS[i % len(COLORS)], name=name[:MAX_LABEL])
    add_legend(figure, panels)
    write_figure(figure, [out])
