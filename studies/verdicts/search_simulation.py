"""How sure a verdict is when real searches tell what they left: on surfaces whose best settings are known.

    python studies/verdicts/search_simulation.py [searches of each surface] [comparisons of each cell]

Each search proposes points as `contrastive compare` does, sees them with a noise of 1.7 points, gives the best two more
seeds, chooses, and says what is left. All surfaces are 36 % at their best, so all methods are level there. The first
table has the points lost against the best settings, also by points that are spread evenly, what the model says of them,
and how often its range of 90 % holds them. The second has comparisons of two methods whose final runs have the settings
that such searches chose.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import mean, median
from typing import Any, NamedTuple

import numpy as np
from compare_simulation import LOGITS, Array, Cell, final_runs
from scipy import special

from contrastive.study.compare.judge import judge_comparison
from contrastive.study.compare.search import Tried, left_to_find, proposals, smoothed
from contrastive.study.compare.space import Knob, points, read_knob

TEMPERATURE = read_knob("temperature", "tag(log, interval(0.05, 1))")
RATE = read_knob("optimizer.lr", "tag(log, interval(1e-4, 1))")
THIRD = read_knob("loss.push", "tag(log, interval(1, 8))")
DEFAULT = {"temperature": "0.5", "optimizer.lr": "0.001", "loss.push": "1"}
BEST, HEIGHT, NOISE, BATCH, FINALISTS = 36.0, 8.0, 1.7, 4, 2
SALT = 10_000  # of the places of the best settings


class Surface(NamedTuple):
    """The points that settings lose against the best ones, by their place in the unit box."""

    knobs: tuple[Knob, ...]
    loses: Callable[[Array], float]


def _peak(centre: Array, width: tuple[float, ...]) -> Callable[[Array], float]:
    return lambda x: HEIGHT * (1 - float(np.exp(-0.5 * (((x - centre) / width) ** 2).sum())))


def _beside_a_cliff(centre: Array) -> Callable[[Array], float]:
    """A peak beside a learning rate where training breaks down."""
    peak = _peak(centre, (0.3, 0.25))
    return lambda x: 26.0 if x[1] > centre[1] + 0.1 else peak(x)


def _ridge(centre: Array) -> Callable[[Array], float]:
    """What counts is the sum of two knobs."""
    peak = _peak(np.array([centre[0] + centre[2], centre[1]]), (0.2, 0.3))
    return lambda x: peak(np.array([x[0] + x[2], x[1]]))


def surface(name: str, draw: int) -> Surface:
    """A surface of a kind, with its best settings at a place of its own."""
    knobs = (TEMPERATURE, RATE, THIRD)[: N_KNOBS[name]]
    centre = np.random.default_rng(SALT + draw).uniform(0.15, 0.85, len(knobs))
    loses = {
        "wide": lambda: _peak(centre, (0.3, 0.35)),
        "narrow": lambda: _peak(centre, (0.1, 0.15)),
        "cliff": lambda: _beside_a_cliff(centre),
        "narrow, three knobs": lambda: _peak(centre, (0.1, 0.15, 0.3)),
        "ridge": lambda: _ridge(centre),
    }
    return Surface(knobs, loses[name]())


N_KNOBS = {"wide": 2, "narrow": 2, "cliff": 2, "narrow, three knobs": 3, "ridge": 3}
PAIRS = (
    ("wide", "wide"), ("wide", "narrow"), ("narrow", "narrow"), ("wide", "cliff"), ("narrow, three knobs", "ridge"),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Searched:
    """What a search came to: the points that it lost, and what it says is left."""

    lost: float
    more: Mapping[str, float] | None


def searched(name: str, budget: int, draw: int, *, evenly: bool = False) -> Searched:
    """One search by the code of real ones.

    Args:
        evenly: all points come from one Sobol sequence, and the best figures are taken as they are.
    """
    rng = np.random.default_rng(draw)
    knobs, loses = surface(name, draw)

    def value(point: Mapping[str, Any]) -> float:
        full = DEFAULT | dict(point)
        place = np.clip([knob.place(full) or 0.0 for knob in knobs], 0, 1)
        return BEST - loses(place)

    def run(point: Mapping[str, Any]) -> float:
        return value(point) + NOISE * float(rng.standard_normal())

    first = budget if evenly else max(5, -(-budget // 4))
    tried = [Tried(dict(DEFAULT | dict(point)), [run(point)]) for point in points(knobs, first, draw=draw)]
    while len(tried) < budget:
        new = proposals(knobs, tried, min(BATCH, budget - len(tried)), draw=draw + len(tried))
        tried += [Tried(dict(DEFAULT | point), [run(point)]) for point in new]
    worth = [values[0] for _, values in tried] if evenly else smoothed(knobs, tried)
    last = sorted(range(budget), key=lambda i: -worth[i])[:FINALISTS]
    for i in last:
        tried[i] = Tried(tried[i].settings, [*tried[i].values, *(run(tried[i].settings) for _ in range(2))])
    chosen = max(last, key=lambda i: float(np.mean(tried[i][1])))
    more = left_to_find(knobs, tried, tried[chosen].settings)
    return Searched(lost=BEST - value(tried[chosen][0]), more=more)


def judged(cell: Cell, pair: tuple[str, str], known: Mapping[str, list[Searched]], rng: np.random.Generator) -> Any:
    """What a comparison says of two methods of these surfaces, whose searches are drawn from those that are known."""
    drawn = [[known[name][i] for i in rng.choice(len(known[name]), cell.searches, replace=False)] for name in pair]
    reached = special.logit(BEST / 100) - LOGITS * np.array([[search.lost for search in own] for own in drawn])
    searches = {
        f"m{c}": [{"points": [None] * cell.points, "more": search.more} for search in own]
        for c, own in enumerate(drawn)
    }
    (claim,) = judge_comparison(cell.plan, final_runs(cell, reached, rng), {}, searches)
    return claim


def main(n_searches: int, tables: int) -> None:
    """Print a line for each surface, and one for each kind of comparison."""
    for budget in (24, 32, 8):
        known = {name: [searched(name, budget, draw) for draw in range(n_searches)] for name in N_KNOBS}
        for name, own in known.items():
            told = [(search.lost, search.more) for search in own if search.more]
            said = f", says {mean(more['mean'] for _, more in told):.2f}" if told else ", says nothing"
            held = f", range holds {mean(lost <= more['high'] for lost, more in told):.2f}" if told else ""
            lost = [search.lost for search in own]
            even = [searched(name, budget, draw, evenly=True).lost for draw in range(n_searches)]
            spread = f"loses {mean(lost):.2f} ± {np.std(lost):.2f}, evenly {mean(even):.2f} ± {np.std(even):.2f}"
            print(f"{budget} points, {name}: {spread}{said}{held}", flush=True)
        for n, seeds in ((1, 3), (1, 8), (3, 3), (5, 3)):
            for pair in PAIRS:
                rng = np.random.default_rng(1)
                cell = Cell(searches=n, seeds=seeds, points=budget)
                claims = [judged(cell, pair, known, rng) for _ in range(tables)]
                covers = mean(claim["low"] <= 0 <= claim["high"] for claim in claims)
                false = mean(claim["verdict"] in ("better", "worse") for claim in claims)
                half = median(claim["high"] - claim["low"] for claim in claims) / 2
                said = f"covers {covers:.3f}, false {false:.3f}, half {half:.2f}"
                print(f"{' against '.join(pair)}, {n} x {seeds} searches of {budget}: {said}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or (60, 400)))
