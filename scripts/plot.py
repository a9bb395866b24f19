"""Matplotlib figures of panels side by side, with one legend, for print."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from contrastive.errors import ConfigError
from contrastive.files import atomic
from contrastive.report.curves import COLORS

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "pdf.fonttype": 42,
}
PANEL = (3.2, 2.6)  # inches
MARKERS = "osD^vP*X<>"


def new_figure(n_panels: int) -> tuple[Any, list[Any]]:
    """A figure with panels side by side, at most four in a row.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise ConfigError("figures need matplotlib, which is missing: try pip install -e '.[dev]'") from None

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
        panel.xaxis.get_major_locator().set_params(integer=True)  # epochs, ranks of settings
    return figure, panels[:n_panels]


def plot_mean(panel: Any, epoch: list[float], mean: list[float], std: list[float], *, color: str, name: str) -> None:
    """A line with the marker of its color in a band of ± one standard deviation."""
    every = max(1, len(epoch) // 8)
    panel.plot(
        epoch, mean, color=color, linewidth=1.6, label=name, marker=marker_of(color), markersize=3.5, markevery=every
    )
    low, high = ([m + sign * d for m, d in zip(mean, std, strict=True)] for sign in (-1, 1))
    panel.fill_between(epoch, low, high, color=color, alpha=0.15, linewidth=0)


def add_legend(figure: Any, panels: list[Any]) -> None:
    """One legend below all panels, published curves last."""
    handles = {text: handle for p in panels for handle, text in zip(*p.get_legend_handles_labels(), strict=True)}
    handles = dict(sorted(handles.items(), key=lambda item: item[0].endswith(", published")))
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=columns_of_legend(handles, len(panels)),
        fontsize=7, frameon=False, markerscale=1.5,
    )  # fmt: skip


def columns_of_legend(names: Iterable[str], n_panels: int) -> int:
    """As many columns as the longest name leaves room for."""
    letters = 16 * n_panels * PANEL[0]  # that fit into the figure's width
    return max(1, int(letters / (max(map(len, names)) + 7)))


def write_figure(figure: Any, paths: list[Path]) -> None:
    """Write the figure once for each path, in the format of its suffix, and close it."""
    from matplotlib import pyplot as plt

    for path in paths:
        with atomic(path) as part:
            figure.savefig(part, dpi=200, format=path.suffix[1:])
    plt.close(figure)


def marker_of(color: str) -> str:
    """Matplotlib's marker of a color, by which print without color tells rows apart."""
    return MARKERS[COLORS.index(color) % len(MARKERS)]
