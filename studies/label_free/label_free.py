"""Which figure without labels would have chosen the point of a search that labels chose? From committed records alone.

    python studies/label_free/label_free.py

It reads the searches of the other studies, renews the table of README.md here and draws its picture. No run is
trained. A *choice* is one loss of one search: its points are what the search tried, of which labels chose the one
with the highest mean of kNN and linear probe on validation images. The regret of a figure is by how much its choice is
worse on test images than that of labels.
"""

import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from contrastive.report.curves import COLORS
from contrastive.report.record import read_record
from contrastive.report.statistics import paired_estimate

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
from plot import marker_of, new_figure, write_figure
from tables.kept import study_records

HERE = Path(__file__).resolve().parent
PAGE = HERE / "README.md"
SEARCHES = {
    "objectives_search": "19 losses, digits",
    "objectives_cifar10_search": "19 losses, small CIFAR-10",
    "push_search": "push, small CIFAR-10",
    "push_digits_search": "push, digits",
    "debiased_search": "debiased, small CIFAR-10",
    "digits_search": "debiased, digits",
}
Run = dict[str, Any]


class Figure(NamedTuple):
    """What a run is judged by: its name in the table, how to read it (None = not recorded), and which end is chosen."""

    name: str
    read: Callable[[Run], float | None]
    sign: int  # 1: the highest is chosen, -1: the lowest


class Point(NamedTuple):
    """One row of a search: means over its runs."""

    overrides: dict[str, str]
    runs: list[Run]
    validation: float
    test: float


class Choice(NamedTuple):
    """All points that a search tried of one loss."""

    search: str
    loss: str
    points: list[Point]


def last(curve: str) -> Callable[[Run], float | None]:
    """The value of a curve after the last epoch."""
    return lambda run: run["curves"][curve]["value"][-1] if curve in run["curves"] else None


def measured(key: str) -> Callable[[Run], float | None]:
    """A figure of the encoder's features on the test images, which reads no label."""
    return lambda run: run["test"].get(key)


FIGURES = [
    Figure("training loss, lowest", last("train/loss"), -1),
    Figure("top-1 of pairs, highest", last("pairs/top1"), 1),
    Figure("alignment of pairs, lowest", last("pairs/alignment"), -1),
    Figure("uniformity of projections, lowest", last("pairs/uniformity"), -1),
    Figure("push ratio, highest", last("pairs/push_ratio"), 1),
    Figure("push ratio, lowest", last("pairs/push_ratio"), -1),
    Figure("RankMe of features, highest", measured("rankme"), 1),
    Figure("uniformity of features, lowest", measured("alignment_uniformity_uniformity"), -1),
    Figure("alignment of features, lowest", measured("alignment_uniformity_alignment"), -1),
]
HEAD = ["figure", "choices", "regret, digits", "regret, CIFAR-10", "at random, same choices", "rank correlation"]


def main() -> None:
    """Renew the table and the picture."""
    found = choices()
    PAGE.write_text(renewed(PAGE.read_text(), chosen_table(found)))
    draw(found, HERE / "figure.png")


def renewed(page: str, table: str) -> str:
    """The page with its table replaced."""
    return re.sub(r"(?:^\|.*\n)+", lambda _: table, page, flags=re.MULTILINE)


def choices() -> list[Choice]:
    """The choices of all searches."""
    found: dict[tuple[str, str], list[Point]] = {}
    for search in SEARCHES:
        for row in (read_record(study_records()[search]) or {})["rows"]:
            words = dict(word.split("=", 1) for word in row["overrides"])
            loss = words["loss"] + (", pushed" if "loss.push" in words else "")
            found.setdefault((search, loss), []).append(point(words, row["runs"]))
    return [Choice(search, loss, points) for (search, loss), points in found.items()]


def point(words: dict[str, str], runs: list[Run]) -> Point:
    """A row's accuracies: the mean of kNN and linear probe, over its runs."""

    def accuracy(split: str) -> float:
        return float(mean((run[split]["knn_top1"] + run[split]["linear_top1"]) / 2 for run in runs))

    return Point(words, runs, accuracy("val"), accuracy("test"))


def values(choice: Choice, figure: Figure) -> list[float] | None:
    """The figure of each point, its better end positive; None if it was not recorded, or is the same everywhere."""
    means = []
    for point in choice.points:
        read = [value for run in point.runs if (value := figure.read(run)) is not None and math.isfinite(value)]
        if len(read) < len(point.runs):
            return None
        means.append(figure.sign * mean(read))
    return means if max(means) - min(means) > 1e-3 * abs(means[0]) else None


def by_labels(choice: Choice) -> Point:
    """The point with the highest accuracy on validation images."""
    return max(choice.points, key=lambda point: point.validation)


def regrets(found: Sequence[Choice], figure: Figure) -> dict[int, tuple[Point, float]]:
    """{place of the choice: the point that the figure chooses, and its regret} where the figure was recorded."""
    chosen = {}
    for place, choice in enumerate(found):
        if (own := values(choice, figure)) is not None:
            point = choice.points[own.index(max(own))]
            chosen[place] = point, by_labels(choice).test - point.test
    return chosen


def correlation(choice: Choice, figure: Figure) -> float:
    """Spearman's, of a figure with the test accuracy; positive where its better end is better."""
    from scipy.stats import spearmanr  # late: it takes a second

    return float(spearmanr(values(choice, figure), [point.test for point in choice.points]).statistic)


def chosen_table(found: Sequence[Choice]) -> str:
    """A line for each figure, then for a point at random and for the best one."""
    lines = [HEAD]
    for figure in FIGURES:
        own = {place: regret for place, (_, regret) in regrets(found, figure).items()}
        rank = mean(correlation(found[place], figure) for place in own)
        drawn = with_interval([at_random(found[place]) for place in own])
        lines.append([figure.name, *in_cells(found, own), drawn, f"{rank:+.2f}"])
    lines.append(["a point at random", *in_cells(found, dict(enumerate(map(at_random, found)))), "", ""])
    best = {p: by_labels(choice).test - max(point.test for point in choice.points) for p, choice in enumerate(found)}
    lines.append(["the best point on test images", *in_cells(found, best), "", ""])
    return markdown(lines)


def in_cells(found: Sequence[Choice], own: dict[int, float]) -> list[str]:
    """The number of choices, and the regret on digits and on CIFAR-10."""
    digits = [regret for place, regret in own.items() if "digits" in SEARCHES[found[place].search]]
    others = [regret for place, regret in own.items() if "digits" not in SEARCHES[found[place].search]]
    return [str(len(own)), *(with_interval(part) if part else "" for part in (digits, others))]


def at_random(choice: Choice) -> float:
    """The mean regret of a point drawn at random."""
    return by_labels(choice).test - mean(point.test for point in choice.points)


def with_interval(numbers: Sequence[float]) -> str:
    """The mean and its 95 % interval over the numbers."""
    estimate = paired_estimate(list(numbers))
    ends = (estimate.effect, estimate.effect - estimate.half(), estimate.effect + estimate.half())
    middle, low, high = (f"{round(number, 1) + 0:.1f}" for number in ends)  # + 0: no minus zero
    return f"{middle} ({low} to {high})"


def markdown(lines: list[list[str]]) -> str:
    """A table, its first line the head."""
    rows = [lines[0], ["---"] * len(lines[0]), *lines[1:]]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def draw(found: Sequence[Choice], out: Path) -> None:
    """The regret of every choice, a line for each figure."""
    figure, (panel,) = new_figure(1)
    figure.set_size_inches(8, 4.2)
    colors = dict(zip(SEARCHES, COLORS, strict=False))
    rows = [(item.name, {p: regret for p, (_, regret) in regrets(found, item).items()}) for item in FIGURES]
    rows.append(("a point at random, on average", dict(enumerate(map(at_random, found)))))
    for y, (_, own) in enumerate(rows):
        for i, (search, name) in enumerate(SEARCHES.items()):
            x = [regret for p, regret in own.items() if found[p].search == search]
            shift = [y + (i - 2.5) / 9] * len(x)
            marker = marker_of(colors[search])
            panel.plot(x, shift, marker, color=colors[search], markersize=3.5, alpha=0.8, label=name)
        panel.plot([mean(own.values())] * 2, [y - 0.4, y + 0.4], color="black", linewidth=2)
    panel.axvline(0, color="gray", linewidth=0.8)
    panel.set(yticks=range(len(rows)), xlabel="points of test accuracy lost against the choice by labels; bar: mean")
    panel.set_yticklabels([name for name, _ in rows])
    panel.set_xscale("symlog", linthresh=5)
    panel.set_xticks([-5, -2, 0, 2, 5, 10, 20, 50], labels=["-5", "-2", "0", "2", "5", "10", "20", "50"])
    panel.invert_yaxis()
    handles = dict(reversed(list(zip(*reversed(panel.get_legend_handles_labels()), strict=True))))
    figure.legend(
        [handles[name] for name in SEARCHES.values()], SEARCHES.values(), loc="outside lower center", ncols=3,
        fontsize=7, frameon=False, markerscale=1.5,
    )  # fmt: skip
    write_figure(figure, [out])


if __name__ == "__main__":
    main()
