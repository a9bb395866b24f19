"""The curves of several groups of runs in one picture."""

import json
from pathlib import Path
from statistics import mean, stdev

from contrastive.atomic import atomic
from contrastive.errors import ConfigError
from contrastive.report.groups import Group

MAX_LABEL = 150  # characters of a name in the legend
USUAL = ("test/knn_top1", "train/loss")


def default_keys(groups: list[Group]) -> list[str]:
    """The usual curves that some run has."""
    keys = {key for group in groups for run in group.runs.values() for point in read_points(run) for key in point}
    return [key for key in USUAL if key in keys]


def read_points(run: Path) -> list[dict[str, float]]:
    """The lines of metrics.jsonl."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def over_seeds(group: Group, key: str) -> list[tuple[float, float, float]]:
    """(epoch, mean, std) at every epoch that all runs with this curve logged."""
    curves = [{p["epoch"]: p[key] for p in read_points(run) if key in p} for run in group.runs.values()]
    curves = [curve for curve in curves if curve]
    epochs = sorted(set.intersection(*map(set, curves))) if curves else []
    columns = [(epoch, [curve[epoch] for curve in curves]) for epoch in epochs]
    return [(epoch, mean(values), stdev(values) if len(values) > 1 else 0.0) for epoch, values in columns]


def draw_curves(groups: dict[str, Group], keys: list[str], out: Path) -> None:
    """A panel for each metric, a line for each group: the mean over seeds in a band of ± one standard deviation.

    Raises:
        ConfigError: matplotlib is not installed, or no run has the metric.
    """
    if not keys:
        raise ConfigError("these runs share no usual curve: try --curves with a key of metrics.jsonl")
    try:
        import matplotlib
    except ImportError:
        raise ConfigError("curves need matplotlib: try pip install -e '.[report]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D

    figure, panels = plt.subplots(1, len(keys), figsize=(6 * len(keys), 4), layout="constrained", squeeze=False)
    for panel, key in zip(panels[0], keys, strict=True):
        lines = {name: points for name, group in groups.items() if (points := over_seeds(group, key))}
        if not lines:
            raise ConfigError(f"no run has a curve of {key}: try --curves train/loss")
        for i, name in enumerate(groups):
            if name not in lines:
                continue
            points, color = lines[name], f"C{i % 10}"
            epochs, middle, std = zip(*points, strict=True)
            panel.plot(epochs, middle, marker="o", markersize=3, color=color)
            low, high = ([m + sign * s for m, s in zip(middle, std, strict=True)] for sign in (-1, 1))
            panel.fill_between(epochs, low, high, color=color, alpha=0.2, linewidth=0)
        panel.set(xlabel="epoch", ylabel=key)
        panel.grid(alpha=0.3)
    handles = [Line2D([], [], color=f"C{i % 10}", label=name[:MAX_LABEL]) for i, name in enumerate(groups)]
    figure.legend(handles=handles, loc="outside lower left", fontsize=8)
    with atomic(out) as part:
        figure.savefig(part, dpi=120, format="png")
    plt.close(figure)
