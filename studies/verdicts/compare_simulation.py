"""How sure contrastive compare is: made-up comparisons with a known truth, judged by the code that judges real ones.

    python studies/verdicts/compare_simulation.py [tables of each cell]

Of each cell: how often all intervals of a comparison cover the true differences, how often it calls equal methods
better or worse, how often a method that is 3 points better (at 36 %, as many logits elsewhere) is found, the median
half-width. The truth is the difference between the best settings where a search tells what it
left (`more`), else between the means over searches. Runs, searches and images spread as those of studies/, on the
scale of logits; docs/compare.md has the table.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import mean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from contrastive.study.compare.judge import RANGE_IN_SDS, judge_comparison
from contrastive.study.compare.plan import Contestant, Plan
from contrastive.text import pack_bits

Array = NDArray[np.float64]
METRIC = "knn_top1"
LOGITS = 1 / (36 * 0.64)  # of a point at 36 %
SEED_SD = 0.75  # points at 36 %, of a run
DIFFICULTY, TASTE = 1.5, 0.3  # spread of images, and of images between methods, in units of a run's noise
LEAD = 3.0


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A kind of comparison.

    Attributes:
        accuracy: of all methods at their best settings, in percent.
        loses, moves: points at 36 % that a search loses against the best settings, mean and standard deviation.
        tells: whether a search tells what it left.
        misjudges: the factor of the points lost in what a search tells.
    """

    methods: int = 2
    images: int = 1000
    accuracy: float = 36.0
    searches: int = 1
    seeds: int = 5
    points: int = 32
    loses: float = 0.25
    moves: float = 0.3
    tells: bool = True
    misjudges: float = 1.0

    @property
    def plan(self) -> Plan:
        contestants = tuple(Contestant(name=f"m{i}", words=()) for i in range(self.methods))
        return Plan(contestants=contestants, budget=self.points, seeds=self.seeds, searches=self.searches)

    def __str__(self) -> str:
        told = f"tells {self.misjudges:g} of what it left" if self.tells else "does not tell"
        return (
            f"{self.methods} methods at {self.accuracy:g} % on {self.images} images, {self.searches} x {self.seeds}, a "
            f"search of {self.points} loses {self.loses:g} ± {self.moves:g} and {told}"
        )


def cells() -> Iterator[Cell]:
    deep, shallow = Cell(), Cell(points=8, loses=0.9, moves=0.9, tells=False)
    yield from (replace(deep, searches=n, seeds=seeds) for n, seeds in ((1, 3), (1, 8), (2, 3), (3, 3), (5, 3)))
    yield from (replace(shallow, searches=n, seeds=seeds) for n, seeds in ((1, 3), (1, 8), (2, 3), (3, 3), (5, 3)))
    yield from (replace(shallow, searches=n, seeds=3, moves=1.4) for n in (1, 2, 3, 5))
    yield from (replace(deep, methods=n, searches=searches, seeds=3) for n in (3, 6) for searches in (1, 3))
    yield from (replace(deep, images=n, accuracy=a) for n in (40, 359) for a in (36.0, 80.0, 95.0, 99.0))
    yield from (replace(deep, images=10_000, accuracy=a) for a in (36.0, 95.0, 99.0))
    yield from (replace(deep, misjudges=x) for x in (0.0, 0.5, 2.0))
    yield replace(deep, searches=16, seeds=3)


def simulated(cell: Cell, leads: Array, rng: np.random.Generator) -> tuple[Any, Any, Array]:
    """The final runs and searches of a comparison as a record has them, and the true difference of each to the first.

    Args:
        leads: (methods,) in logits.
    """
    best = special.logit(cell.accuracy / 100) + leads
    rows = final_runs(cell, best[:, None] - _lost(cell, (cell.methods, cell.searches), rng) * LOGITS, rng)
    points = cell.misjudges * 100 * cell.accuracy / 100 * (1 - cell.accuracy / 100) * LOGITS * np.array(
        [cell.loses, *_quantiles(cell)]
    )  # fmt: skip
    said = dict(zip(("mean", "low", "high"), map(float, points), strict=True))
    sd = (said["high"] - said["low"]) / RANGE_IN_SDS / cell.searches**0.5  # of the mean: these losses are apart
    more = {**said, "sd": sd} if cell.tells else None
    searches = {name: [{"points": [None] * cell.points, "more": more}] * cell.searches for name in rows}
    middle = best if cell.tells else best - cell.loses * LOGITS
    at, weights = np.polynomial.hermite_e.hermegauss(15)
    sd = LOGITS * (SEED_SD if cell.tells else np.hypot(SEED_SD, cell.moves))
    true = 100 * special.expit(middle[:, None] + sd * at) @ (weights / weights.sum())
    return rows, searches, true - true[0]


def final_runs(cell: Cell, reached: Array, rng: np.random.Generator) -> dict[str, list[dict[str, Any]]]:
    """The final runs of a comparison.

    Args:
        reached: (methods, searches) the logit of the accuracy at the settings that each search chose.
    """
    seeds = SEED_SD * LOGITS * rng.standard_normal((*reached.shape, cell.seeds))
    aim = special.expit(reached[:, :, None] + seeds)
    spread = np.sqrt(1 + DIFFICULTY**2 + TASTE**2)
    of_images = DIFFICULTY * rng.standard_normal(cell.images) + TASTE * rng.standard_normal((cell.methods, cell.images))
    score = spread * stats.norm.ppf(aim)[..., None] + of_images[:, None, None]
    right = score + rng.standard_normal(score.shape, dtype=np.float32) > 0
    return {
        f"m{c}": [
            {"seed": 1000 * (r + 1) + 100 + s, "test": {METRIC: 100 * float(bits.mean())}, "weights": f"{c} {r} {s}",
             "correct": {METRIC: pack_bits(bits)}}
            for r in range(cell.searches) for s in range(cell.seeds) for bits in [right[c, r, s]]
        ]
        for c in range(cell.methods)
    }  # fmt: skip


def _lost(cell: Cell, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """Points lost, never below 0 and skewed."""
    return rng.gamma((cell.loses / cell.moves) ** 2, cell.moves**2 / cell.loses, shape)


def _quantiles(cell: Cell) -> list[float]:
    """The 90 % range of the points lost."""
    lost = stats.gamma((cell.loses / cell.moves) ** 2, scale=cell.moves**2 / cell.loses)
    return [float(lost.ppf(q)) for q in (0.05, 0.95)]


def judged(cell: Cell, leads: Array, rng: np.random.Generator) -> tuple[list[Any], Array]:
    """The verdicts of a comparison, and the true differences to the first method."""
    rows, searches, true = simulated(cell, leads, rng)
    return judge_comparison(cell.plan, rows, {}, searches), true


def measured(cell: Cell, tables: int) -> dict[str, float]:
    """{covers, false, found, half} of a cell."""
    rng = np.random.default_rng(1)
    nothing, ahead = np.zeros(cell.methods), np.eye(cell.methods)[-1] * LEAD * LOGITS
    covers, false, found, halves = [], [], [], []
    for _ in range(tables):
        claims, true = judged(cell, nothing, rng)
        covers.append(_cover(claims, true))
        false.append(any(claim["verdict"] in ("better", "worse") for claim in claims))
        halves.append(mean(claim["high"] - claim["low"] for claim in claims) / 2)
        claims, true = judged(cell, ahead, rng)
        covers.append(_cover(claims, true))
        found.append(claims[-1]["verdict"] == "better")
    return {
        "covers": mean(covers),
        "false": mean(false),
        "found": mean(found),
        "half": median(halves),
    }


def _cover(claims: list[Any], true: Array) -> bool:
    pairs = zip(claims, true[1:], strict=True)
    return all(claim["low"] - 5e-5 <= x <= claim["high"] + 5e-5 for claim, x in pairs)  # ends are rounded


def main(tables: int) -> None:
    """Print a line for each cell."""
    for cell in cells():
        said = measured(cell, tables if cell.images < 5000 else tables // 4)
        print(f"{cell}: {', '.join(f'{name} {value:.3f}' for name, value in said.items())}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
