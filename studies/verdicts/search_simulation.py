"""How sure a verdict is when real searches tell what they left: on surfaces whose best settings are known.

    python studies/verdicts/search_simulation.py [surfaces of each kind] [comparisons of each cell]

Each search proposes points as `contrastive compare` does, sees them with a noise of 1.7 points on held-out images that
are a little harder or easier than those of other searches, gives the best two more seeds, chooses, and says what is
left. All searches of a method are on its one surface. At their best all surfaces are as good, so all methods are level
there. The first table has the points lost against the best settings and what the model says of them. The others have
comparisons of two methods whose final runs have the settings that such searches chose: how often the interval holds
the truth, how often level methods are called better or worse, how often a lead of 2 points (at 36 %) is found, half the
length of the interval; then the first three of a paired t-test over the same final runs, of several searches over their
means. Of 300 comparisons a share of 0.95 is known to 0.013, one of 0.5 to 0.03.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import numpy as np
from compare_simulation import LOGITS, METRIC, Array, Cell, final_runs
from scipy import special, stats

from contrastive.study.compare.judge import judge_comparison, paired_runs
from contrastive.study.compare.outcome import Record
from contrastive.study.compare.plan import search_of
from contrastive.study.compare.search import Tried, best, finalists, first_points, left_to_find, next_points, surface_of
from contrastive.study.compare.space import Knob, read_knob
from contrastive.study.record import read_compared

TEMPERATURE = read_knob("temperature", "tag(log, interval(0.05, 1))")
RATE = read_knob("optimizer.lr", "tag(log, interval(1e-4, 1))")
THIRD = read_knob("loss.push", "tag(log, interval(1, 8))")
DEFAULT = {"temperature": "0.5", "optimizer.lr": "0.001", "loss.push": "1"}
HEIGHT, NOISE, OFFSET = 8.0, 1.7, 0.7  # in points
HILL = 2.0  # by which the wide hill of two optima is lower
FAIR_SEARCH = Path(__file__).resolve().parents[1] / "fair_search/record.json"
SALT = 10_000  # of the places of the best settings
MOST = 5  # searches of a method
LEAD = 2.0


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


def _two_optima(centre: Array, rng: np.random.Generator) -> Callable[[Array], float]:
    """A narrow best, and elsewhere a wide hill that is lower."""
    hill = centre
    while abs(hill - centre).max() <= 0.33:
        hill = rng.uniform(0.15, 0.85, len(centre))
    top, wide = _peak(centre, (0.1, 0.15)), _peak(hill, (0.3, 0.35))
    return lambda x: min(top(x), HILL + wide(x))


def _ridge(centre: Array) -> Callable[[Array], float]:
    """What counts is the sum of two knobs."""
    peak = _peak(np.array([centre[0] + centre[2], centre[1]]), (0.2, 0.3))
    return lambda x: peak(np.array([x[0] + x[2], x[1]]))


@cache
def _fitted(name: str) -> Surface:
    """The surface through the points of a loss in studies/fair_search."""
    record: Record = read_compared(FAIR_SEARCH) or {}
    own = record["comparison"]
    knobs = tuple(read_knob(key, text) for key, text in own["knobs"][name].items())
    points = [point for search in own["searches"][name] for point in search["points"] if None not in point["values"]]
    tried = [Tried(point["point"] or point["default"], point["values"]) for point in points]
    fitted = surface_of(knobs, tried)
    grid = np.random.default_rng(0).uniform(size=(4000, len(knobs)))
    highest = float(fitted.predict(grid).max())
    return Surface(knobs, lambda x: max(0.0, highest - float(fitted.predict([x])[0])))


def surface(name: str, draw: int) -> Surface:
    """A surface of a kind, with its best settings at a place of its own; one that is fitted is always the same."""
    if name in FITTED:
        return _fitted(name)
    rng = np.random.default_rng(SALT + draw)
    knobs = (TEMPERATURE, RATE, THIRD) if name == "ridge" else (TEMPERATURE, RATE)
    centre = rng.uniform(0.15, 0.85, len(knobs))
    loses = {
        "wide": lambda: _peak(centre, (0.3, 0.35)),
        "narrow": lambda: _peak(centre, (0.1, 0.15)),
        "two optima": lambda: _two_optima(centre, rng),
        "cliff": lambda: _beside_a_cliff(centre),
        "ridge": lambda: _ridge(centre),
    }
    return Surface(knobs, loses[name]())


FITTED = ("nt_xent", "sigmoid")  # losses of studies/fair_search
KINDS = ("wide", *FITTED, "narrow", "cliff", "ridge", "two optima")
PAIRS = (("wide", "wide"), FITTED, ("wide", "narrow"), ("wide", "cliff"), ("wide", "ridge"), ("wide", "two optima"))
PLANS = ((1, 3), (1, 8), (3, 3), (3, 8), (5, 3))


class Searched(NamedTuple):
    """What a search came to: its points, what it chose, and the points that it lost."""

    tried: list[Tried]
    chosen: Mapping[str, Any]
    lost: float


class Method(NamedTuple):
    """Searches of one method: the points that each lost, and what each says is left."""

    lost: list[float]
    more: list[dict[str, float]]


def searched(known: Surface, budget: int, rng: np.random.Generator, *, draw: int) -> Searched:
    """One search by the code of real ones."""
    offset = OFFSET * float(rng.standard_normal())

    def loses(point: Mapping[str, Any]) -> float:
        return known.loses(np.clip([knob.place(DEFAULT | dict(point)) or 0.0 for knob in known.knobs], 0, 1))

    def run(point: Mapping[str, Any]) -> Tried:
        return Tried(DEFAULT | dict(point), [offset - loses(point) + NOISE * float(rng.standard_normal())])

    tried = [run(point) for point in first_points(known.knobs, budget, draw=draw)]
    while new := next_points(known.knobs, budget, tried, draw=draw):
        tried += map(run, new)
    last = finalists(known.knobs, budget, tried)
    for i in last:
        more = [run(tried[i].settings).values[0] for _ in range(2)]
        tried[i] = Tried(tried[i].settings, [*tried[i].values, *more])
    chosen = tried[last[best([tried[i] for i in last])]].settings
    return Searched(tried, chosen, loses(chosen))


def methods(name: str, budget: int, n: int) -> list[dict[int, Method]]:
    """Methods of so many surfaces of a kind, each with one, three and five searches."""
    found = []
    for i in range(n):
        known, rng = surface(name, i), np.random.default_rng((SALT, i))
        own = [searched(known, budget, rng, draw=MOST * i + search) for search in range(MOST)]
        found.append({r: _method(known, own[:r]) for r in sorted({r for r, _ in PLANS})})
    return found


def _method(known: Surface, own: Sequence[Searched]) -> Method:
    more = left_to_find(known.knobs, [one.tried for one in own], [one.chosen for one in own])
    return Method([one.lost for one in own], more or [])


class Judged(NamedTuple):
    """The intervals of a comparison and of the t-test beside it, and the verdict."""

    interval: tuple[float, float]
    plain: tuple[float, float]
    verdict: str


def judged(cell: Cell, pair: Sequence[Method], lead: float, rng: np.random.Generator) -> Judged:
    """What a comparison says of two methods, of which the second leads by so many points at 36 %."""
    best_logits = special.logit(cell.accuracy / 100) + np.array([[0.0], [lead * LOGITS]])
    rows = final_runs(cell, best_logits - LOGITS * np.array([own.lost for own in pair]), rng)
    slope = cell.accuracy * (100 - cell.accuracy) / (36 * 64)  # points here for one at 36 %
    searches = {
        f"m{c}": [{"points": [None] * cell.points, "more": {key: slope * x for key, x in more.items()}}
                  for more in own.more]
        for c, own in enumerate(pair)
    }  # fmt: skip
    (claim,) = judge_comparison(cell.plan, rows, {}, searches)
    differences: dict[int, list[float]] = {}
    for ours, theirs in paired_runs(rows, "m1", "m0"):
        place = search_of(ours["seed"]) if cell.searches > 1 else ours["seed"]
        differences.setdefault(place, []).append(ours["test"][METRIC] - theirs["test"][METRIC])
    means = [mean(own) for own in differences.values()]
    plain = stats.t.interval(0.95, len(means) - 1, mean(means), stats.sem(means))
    return Judged((claim["low"], claim["high"]), plain, claim["verdict"])


def measured(cell: Cell, pair: Sequence[list[dict[int, Method]]], tables: int, *, lead: float = LEAD) -> list[float]:
    """[covers, false, finds, half] of a cell, and the first three of the t-test.

    Args:
        lead: in points at 36 %, of the second method where one leads.
    """
    rng, found = np.random.default_rng(1), dict[float, list[Judged]]()
    true = {ahead: 100 * float(special.expit(special.logit(cell.accuracy / 100) + ahead * LOGITS)) - cell.accuracy
            for ahead in (0.0, lead)}  # fmt: skip
    for ahead in true:
        drawn = [rng.choice(len(pair[0]), 2, replace=False) for _ in range(tables)]
        found[ahead] = [judged(cell, [own[i][cell.searches] for own, i in zip(pair, places, strict=True)], ahead, rng)
                       for places in drawn]  # fmt: skip

    def shares(which: Callable[[Judged], tuple[float, float]]) -> list[float]:
        ends = [(*which(one), true[ahead]) for ahead, own in found.items() for one in own]
        covers = [low - 5e-5 <= x <= high + 5e-5 for low, high, x in ends]  # ends are rounded
        wrong = [which(one)[0] > 0 or which(one)[1] < 0 for one in found[0.0]]
        finds = [which(one)[0] > 0 for one in found[lead]]
        return [float(np.mean(own)) for own in (covers, wrong, finds)]

    half = median(one.interval[1] - one.interval[0] for one in found[0.0]) / 2
    return [*shares(lambda one: one.interval), half, *shares(lambda one: one.plain)]


def main(n_surfaces: int, tables: int) -> None:
    """Print the tables as Markdown."""
    print("| points | surface | loses, of one search | says | of five | say |\n|---|---|---|---|---|---|")
    known = {}
    for budget in (8, 24, 32):
        for name in KINDS:
            known[name, budget] = own = methods(name, budget, n_surfaces)
            each = [(mean(one[r].lost), mean(more["mean"] for more in one[r].more)) for r in (1, MOST) for one in own]
            lost, says = np.array(each).reshape(2, n_surfaces, 2).mean(1).T
            print(f"| {budget} | {name} | {lost[0]:.1f} | {says[0]:.1f} | {lost[1]:.1f} | {says[1]:.1f} |", flush=True)
    print(
        "\n| cell | covers | false | finds 2 | half-width | t covers | t false | t finds |"
        + "\n|---"
        + 7 * "|---"
        + "|"
    )
    cells = [(pair, Cell(searches=r, seeds=s, points=b)) for b in (8, 24, 32) for pair in PAIRS for r, s in PLANS]
    cells += [(("wide", "wide"), Cell(searches=3, seeds=3, points=24, accuracy=a, images=n))
              for a, n in ((36.0, 100), (36.0, 10_000), (80.0, 1000), (95.0, 1000), (95.0, 10_000))]  # fmt: skip
    for pair, cell in cells:
        figures = measured(cell, [known[name, cell.points] for name in pair], tables)
        where = "" if (cell.accuracy, cell.images) == (36.0, 1000) else f", {cell.accuracy:g} % on {cell.images} images"
        what = f"{' against '.join(pair)}, {cell.searches} × {cell.seeds}, {cell.points} points{where}"
        print(f"| {what} | {' | '.join(f'{x:.2f}' for x in figures)} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or (60, 300)))
