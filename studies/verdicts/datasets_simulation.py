"""How sure a verdict over several data sets is: made-up comparisons on each, judged by the code that judges real ones.

    python studies/verdicts/datasets_simulation.py [tables of each cell]

Of each cell: how often the interval covers the mean difference of all data sets that these are drawn from, how often
methods that are level on average are called better or worse, how often a lead of 3 points on average is found, the
median half-width. Data sets differ in accuracy, in their number of test images, and in the difference of the methods.
"""

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

import numpy as np
from compare_simulation import LEAD, Array, Cell, judged
from scipy import special

from contrastive.study.compare.judge import judge_datasets

KINDS = ((36.0, 1000), (60.0, 359), (75.0, 2000), (90.0, 1000), (95.0, 359))  # accuracy in percent, test images
Draws = Callable[[np.random.Generator, int], Array]


def _normal(rng: np.random.Generator, n: int) -> Array:
    return rng.standard_normal(n)


def _one_in_four(rng: np.random.Generator, n: int) -> Array:
    """Level on three data sets of four, far apart on the others; mean 0, standard deviation 1."""
    return np.where(rng.random(n) < 0.25, 0.75, -0.25) / math.sqrt(0.1875)


@dataclass(frozen=True, kw_only=True)
class Collection:
    """A kind of collection of data sets.

    Attributes:
        spread: the standard deviation of the true difference from data set to data set, in points.
        draws: how that difference is distributed.
    """

    n: int
    spread: float
    draws: Draws = _normal
    methods: int = 2

    def __str__(self) -> str:
        return f"{self.methods} methods on {self.n} data sets, spread {self.spread:g}, {self.draws.__name__.strip('_')}"


def collections() -> Iterator[Collection]:
    yield from (Collection(n=n, spread=spread) for spread in (0.0, 0.5, 1.0, 2.0) for n in (3, 4, 6, 10))
    yield from (Collection(n=n, spread=2.0, draws=_one_in_four) for n in (3, 4, 6, 10))
    yield from (Collection(n=n, spread=1.0, methods=4) for n in (4, 6))


def over(kind: Collection, lead: float, rng: np.random.Generator) -> tuple[list[Any], Array]:
    """The verdicts over one collection, and the true difference of the last method on each data set."""
    found, true = [], []
    ahead = lead + kind.spread * kind.draws(rng, kind.n)
    for (accuracy, images), points in zip(_drawn(kind.n, rng), ahead, strict=True):
        cell = Cell(methods=kind.methods, images=images, accuracy=accuracy, seeds=3)
        leads = np.zeros(kind.methods)
        leads[-1] = special.logit(min(accuracy + points, 99.5) / 100) - special.logit(accuracy / 100)
        claims, truths = judged(cell, leads, rng)
        found.append(claims)
        true.append(truths[-1])
    return judge_datasets(cell.plan, found, 1), np.array(true)


def _drawn(n: int, rng: np.random.Generator) -> list[tuple[float, int]]:
    return [KINDS[i] for i in rng.integers(len(KINDS), size=n)]


def measured(kind: Collection, tables: int) -> dict[str, float]:
    """{covers, false, found, half} of a kind of collection."""
    rng = np.random.default_rng(1)
    level, apart = ([over(kind, lead, rng) for _ in range(tables)] for lead in (0.0, LEAD))
    covers = []
    for known in (level, apart):
        truth = float(np.concatenate([true for _, true in known]).mean())
        covers += [_low(claims[-1]) <= truth <= _high(claims[-1]) for claims, _ in known]
    return {
        "covers": mean(covers),
        "false": mean(any(claim["verdict"] in ("better", "worse") for claim in claims) for claims, _ in level),
        "found": mean(claims[-1]["verdict"] == "better" for claims, _ in apart),
        "half": median((_high(claims[-1]) - _low(claims[-1])) / 2 for claims, _ in level),
    }


def _low(claim: dict[str, Any]) -> float:
    """Of the interval; data sets that differ by the same to the last digit have none, and are undecided."""
    return -math.inf if claim["low"] is None else claim["low"]


def _high(claim: dict[str, Any]) -> float:
    return math.inf if claim["high"] is None else claim["high"]


def main(tables: int) -> None:
    """Print a line for each kind."""
    for kind in collections():
        said = measured(kind, tables)
        print(f"{kind}: {', '.join(f'{name} {value:.3f}' for name, value in said.items())}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
