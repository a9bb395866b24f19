"""The papers' figures for print, as PDF and PNG with a CSV of what they show."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from contrastive.errors import ConfigError
from contrastive.files import atomic, write_text
from contrastive.report.series import COLORS, Series, label

MARKERS = "osD^vP*X<>"
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "pdf.fonttype": 42,
}
PANEL = (3.2, 2.6)  # inches


def draw_curves(series: Sequence[Series], keys: Sequence[str], out: Path) -> list[Path]:
    """Logged metrics over epochs, a panel for each and each setting: mean and ± std over seeds; published ones dashed.

    Raises:
        ConfigError: no run has a curve of a metric.
    """
    curves = [s for s in series if len(s.epoch) > 1]
    for key in keys:
        if not any(s.key == key and not s.published for s in curves):
            known = sorted({s.key for s in curves if not s.published})
            raise ConfigError(
                f"no run has a curve of {key}: try --metric with one of {', '.join(known) or 'another table'}"
            )
    chosen = [s for key in keys for s in curves if s.key == key]
    methods = list(dict.fromkeys(s.method for s in chosen))
    places = list(dict.fromkeys((s.key, s.setting) for s in chosen))
    figure, panels = new_figure(len(places))
    for panel, (key, setting) in zip(panels, places, strict=True):
        several = len({place[1] for place in places}) > 1
        panel.set(title=setting or ("plain" if several else ""), xlabel="epoch", ylabel=label(key))
        own = [s for s in chosen if (s.key, s.setting) == (key, setting)]
        for s in sorted(own, key=lambda s: not s.published):
            color = COLORS[methods.index(s.method) % len(COLORS)]
            if s.published:
                panel.plot(s.epoch, s.mean, "--", color=color, linewidth=1, alpha=0.7, label=f"{s.method}, published")
                continue
            plot_mean(panel, s.epoch, s.mean, s.std, color=color, name=named(s.method, s.n))
    for key in keys:  # panels of one metric are read against each other
        same = [panel for panel, place in zip(panels, places, strict=True) if place[0] == key]
        low, high = zip(*(panel.get_ylim() for panel in same), strict=True)
        for panel in same:
            panel.set_ylim(min(low), max(high))
    head = ["metric", "method", "setting", "published", "n", "epoch", "mean", "std"]
    rows = [
        [s.key, s.method, s.setting, s.published, s.n, *point]
        for s in chosen
        for point in zip(s.epoch, s.mean, s.std, strict=True)
    ]
    return save(figure, panels, out, [head, *rows])


def draw_sweep(entries: Sequence[dict[str, Any]], setting: str, metric: str, out: Path) -> list[Path]:
    """A final metric over a swept setting, a panel for each of the other settings: mean ± std over seeds.

    Raises:
        ConfigError: the table has no such sweep.
    """
    chosen = [entry for entry in entries if (entry["setting"], entry["metric"]) == (setting, metric)]
    if not chosen:
        known = sorted({f"--over {entry['setting']} --metric {entry['metric']}" for entry in entries})
        raise ConfigError(f"no figures of {metric} over {setting}: try {' or '.join(known) or 'a table with a grid'}")
    others, methods = (list(dict.fromkeys(entry[name] for entry in chosen)) for name in ("at", "method"))
    figure, panels = new_figure(len(others))
    for panel, other in zip(panels, others, strict=True):
        panel.set(title=other, xlabel=setting, ylabel=label(metric if "/" in metric else f"test/{metric}"))
        values = sorted({entry["x"] for entry in chosen})
        panel.set_xticks(range(len(values)), [f"{value:g}" for value in values])
        for i, method in enumerate(methods):
            own = sorted((e for e in chosen if (e["method"], e["at"]) == (method, other)), key=lambda e: e["x"])
            if own:
                x, mean, std = ([e[name] for e in own] for name in ("x", "mean", "std"))
                title = named(method, min(e["n"] for e in own))
                panel.errorbar(
                    [values.index(value) for value in x], mean, std, color=COLORS[i % len(COLORS)],
                    marker=MARKERS[i % len(MARKERS)], markersize=4, capsize=2, label=title,
                )  # fmt: skip
    head = ["method", "at", setting, metric, "std", "n"]
    return save(
        figure, panels, out, [head, *([e[k] for k in ("method", "at", "x", "mean", "std", "n")] for e in chosen)]
    )


def draw_maps(maps: dict[str, dict[str, Any]], out: Path, *, by: str = "class") -> list[Path]:
    """t-SNE maps side by side, colored by `class` or by `bias`.

    Raises:
        ConfigError: the data has no bias labels.
    """
    if any(by not in points for points in maps.values()):
        raise ConfigError(f"the data of these runs has no {by} labels: try --by class")
    figure, panels = new_figure(len(maps))
    names = sorted({str(name) for points in maps.values() for name in points[by]})
    for panel, (title, points) in zip(panels, maps.items(), strict=True):
        panel.set(title=title, xticks=[], yticks=[], frame_on=False)
        for i, name in enumerate(names):
            own = [j for j, value in enumerate(points[by]) if str(value) == name]
            x, y = ([points[axis][j] for j in own] for axis in "xy")
            panel.scatter(x, y, s=4, color=COLORS[i % len(COLORS)], label=name, linewidths=0)
    columns = [key for key in ("x", "y", "class", "bias") if all(key in points for points in maps.values())]
    rows = [
        [title, *row] for title, points in maps.items() for row in zip(*(points[key] for key in columns), strict=True)
    ]
    return save(figure, panels, out, [["map", *columns], *rows])


def plot_mean(panel: Any, epoch: list[float], mean: list[float], std: list[float], *, color: str, name: str) -> None:
    """A line in a band of ± one standard deviation."""
    panel.plot(epoch, mean, color=color, linewidth=1.6, label=name)
    low, high = ([m + sign * d for m, d in zip(mean, std, strict=True)] for sign in (-1, 1))
    panel.fill_between(epoch, low, high, color=color, alpha=0.15, linewidth=0)


def new_figure(n_panels: int) -> tuple[Any, list[Any]]:
    """A figure with panels side by side, at most four in a row.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise ConfigError("figures need matplotlib, which is missing: try pip install -e '.[report]'") from None

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    n_columns = min(4, n_panels)
    n_rows = -(-n_panels // n_columns)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            n_rows, n_columns, squeeze=False, layout="constrained", figsize=(PANEL[0] * n_columns, PANEL[1] * n_rows)
        )
    panels = list(axes.flat)
    for unused in panels[n_panels:]:
        unused.remove()
    for panel in panels[:n_panels]:
        panel.grid(alpha=0.25, linewidth=0.6)
    return figure, panels[:n_panels]


def named(method: str, n: int) -> str:
    """A method with its number of seeds."""
    return f"{method} ({n} seed{'' if n == 1 else 's'})"


def columns_of_legend(names: Iterable[str], n_panels: int) -> int:
    """As many columns as the longest name leaves room for."""
    letters = 16 * n_panels * PANEL[0]  # that fit into the figure's width
    return max(1, int(letters / (max(map(len, names)) + 7)))


def save(figure: Any, panels: list[Any], out: Path, table: list[list[Any]]) -> list[Path]:
    """Write OUT.pdf, OUT.png and OUT.csv, whatever suffix `out` has; one legend below all panels."""
    add_legend(figure, panels)
    paths = [out.with_suffix(suffix) for suffix in (".pdf", ".png", ".csv")]
    write_figure(figure, paths[:2])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(table)
    write_text(paths[2], text.getvalue())
    return paths


def add_legend(figure: Any, panels: list[Any]) -> None:
    """One legend below all panels, published curves last."""
    handles = {text: handle for p in panels for handle, text in zip(*p.get_legend_handles_labels(), strict=True)}
    handles = dict(sorted(handles.items(), key=lambda item: item[0].endswith(", published")))
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=columns_of_legend(handles, len(panels)),
        fontsize=7, frameon=False, markerscale=1.5,
    )  # fmt: skip


def write_figure(figure: Any, paths: list[Path]) -> None:
    """Write the figure once for each path, in the format of its suffix, and close it."""
    from matplotlib import pyplot as plt

    for path in paths:
        with atomic(path) as part:
            figure.savefig(part, dpi=200, format=path.suffix[1:])
    plt.close(figure)
