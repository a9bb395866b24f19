"""The bounds as a page: Markdown, JSON, CSV and a figure."""

import csv
import json
from pathlib import Path
from typing import NamedTuple

from contrastive.files import write_text
from contrastive.report.bounds import Check, lemma1, random_population, theorem3, theorem21
from contrastive.seeding import generator
from contrastive.text import format_grid

SIZES = (16, 64, 256, 1024, 4096)  # N
POSITIVES = (1, 2, 4, 16, 64, 256)  # M
MANY = 4096  # N while M varies
WIDE = (10, 100, 1000, 10_000, 100_000)  # N of Theorem 2.1, which needs no draws
STYLES = {  # line and legend of each quantity
    "printed_bound": ("k--", "printed bound"),
    "corrected_bound": ("k-", "corrected bound"),
    "deviation": ("o-", "mean deviation of a draw"),
    "error": ("s-", "error of the expectation"),
}


class Panel(NamedTuple):
    """One picture: a statement against N or M."""

    title: str
    axis: str  # `n` or `m`
    checks: list[Check]


def measure(draws: int) -> list[Panel]:
    """Every check, with so many anchors for each expectation."""
    rng = generator("cpu", 0, "bounds")
    population = random_population(rng)
    return [
        Panel("Lemma 1: the biased loss", "n", [lemma1(population, rng, n=n, draws=draws) for n in SIZES]),
        Panel("Theorem 3, M = N", "n", [theorem3(population, rng, n=n, m=n, draws=draws) for n in SIZES]),
        Panel(f"Theorem 3, N = {MANY}", "m", [theorem3(population, rng, n=MANY, m=m, draws=draws) for m in POSITIVES]),
        Panel("Theorem 2.1: debiased positives", "n", [theorem21(n=n) for n in WIDE]),
    ]


def write_page(folder: Path, *, draws: int) -> str:
    """Measure, write bounds.md, .json, .csv and .png into the folder, and return the table."""
    panels = measure(draws)
    table = markdown(panels)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "bounds.md", table + "\n")
    records = [{"panel": panel.title, **check._asdict()} for panel in panels for check in panel.checks]
    write_text(folder / "bounds.json", json.dumps({"draws": draws, "checks": records}, indent=1) + "\n")
    with (folder / "bounds.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, records[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
    draw(panels, folder / "bounds.png")
    return table


def markdown(panels: list[Panel]) -> str:
    """A row for each check."""
    rows = [["statement", "N", "M", "error", "mean deviation", "corrected bound", "printed bound", "holds", "margin"]]
    for panel in panels:
        for check in panel.checks:
            numbers = (check.error, check.deviation, check.corrected_bound, check.printed_bound)
            holds = "yes" if check.error <= check.printed_bound else "no"
            cells = [_decimal(number) for number in numbers]
            rows.append([panel.title, str(check.n), str(check.m), *cells, holds, _decimal(check.margin)])
    return format_grid(rows)


def draw(panels: list[Panel], path: Path) -> None:
    """Error and bound of every panel on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(panels), figsize=(3.6 * len(panels), 3.4), layout="constrained")
    for ax, panel in zip(axes, panels, strict=True):
        x = [getattr(check, panel.axis) for check in panel.checks]
        for field, (style, label) in STYLES.items():
            y = [getattr(check, field) for check in panel.checks]
            if None not in y:
                ax.loglog(x, y, style, label=label)
        ax.set(title=panel.title, xlabel=panel.axis.upper())
        ax.grid(alpha=0.3, which="both")
    axes[0].set_ylabel("difference of losses")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _decimal(number: float | None) -> str:
    return "" if number is None else f"{number:.4f}"
