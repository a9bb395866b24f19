"""Whether one row of runs is better than another, judged over common seeds and test images.

A claim of a table and a pair of a comparison are judged alike: `pairs_of` finds what is compared, `estimate` how far
apart they are, `run.figures.verdict` what that says. They differ in how the number of judgements is allowed for: claims
by Holm's correction of p, which leaves their intervals alone, comparisons by wider intervals, which other numbers of
rows and looks share (`compare.judge`).
"""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contrastive.report.frame import Frame
from contrastive.report.grid import Column, Grid
from contrastive.report.record import correct_name
from contrastive.report.statistics import NO_PRIOR, Estimate, Prior, holm, paired_estimate, two_way_estimate
from contrastive.run.figures import lower_is_better, verdict
from contrastive.text import unpack_bits

MIN_SEEDS = 3
LEVEL = 0.025  # of each side: 5 % in all
NUMBERS = ("effect", "low", "high", "p", "p_holm", "p_worse")  # of a judged claim


class Measured(NamedTuple):
    """A figure of a run; of an accuracy also which test images it counts as right, packed. None: not known."""

    value: float
    correct: str | None


class Pairs(NamedTuple):
    """Runs of two rows that belong together: their figures (P, 2), and which test images they got right (P, 2, I)."""

    values: NDArray[np.float64]
    right: NDArray[np.float64] | None

    @property
    def effect(self) -> float:
        """The mean difference."""
        return float(mean((self.values[:, 0] - self.values[:, 1]).tolist()))

    @property
    def each(self) -> NDArray[np.float64]:
        """(P, I) the difference of a pair on each image, in points; (P, 1) where images are not known."""
        if self.right is None:
            return self.values[:, :1] - self.values[:, 1:]
        return 100 * (self.right[:, 0] - self.right[:, 1])


def pairs_of(figures: Sequence[tuple[Measured, Measured]]) -> Pairs:
    """The figures of pairs of runs, with their images where every run tells them and counts the same ones."""
    values = np.array([[figure.value for figure in pair] for pair in figures], dtype=float)
    rights = [[_right(figure) for figure in pair] for pair in figures]
    known = [right for pair in rights for right in pair if right is not None]
    if len(known) < values.size or len({len(right) for right in known}) > 1:
        return Pairs(values, None)
    return Pairs(values, np.array(rights, dtype=float))


def _right(figure: Measured) -> NDArray[np.bool_] | None:
    """(I,) which images are right; None where they are not those that the accuracy counts."""
    right = None if figure.correct is None else unpack_bits(figure.correct)
    return right if right is not None and abs(100 * right.mean() - figure.value) < 0.01 else None


def estimate(each: NDArray[np.float64], prior: Prior = NO_PRIOR) -> Estimate:
    """The mean difference of rows: over rows and images, or with a single column over rows alone."""
    return two_way_estimate(each, prior) if each.shape[1] > 1 else paired_estimate(each[:, 0].tolist(), prior)


def judge(frame: Frame, claims: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Judge each claim {better, worse, metric, gap} between two rows of a frame.

    better: the row that is called so is, by more than the gap; worse: the other one is; equal: they differ by less.
    Better and worse are corrected for the number of claims, each at LEVEL.

    Returns:
        the claims with `n` common seeds, `over` what the interval is, `effect`, `low`, `high`, `p` of an effect above
        the gap, the same corrected as `p_holm`, `p_worse` of one below minus the gap, corrected, and `verdict`.
    """
    judged = [{**claim, **_judged(frame, claim)} for claim in claims]
    for key, corrected in (("p", "p_holm"), ("p_worse", "p_worse")):
        values = iter(holm([claim[key] for claim in judged if claim[key] is not None]))
        for claim in judged:
            claim[corrected] = None if claim[key] is None else next(values)
    for claim in judged:
        said = verdict(claim["low"], claim["high"], gap=claim["gap"], margin=claim["gap"])
        chance = {"better": claim["p_holm"], "worse": claim["p_worse"]}.get(said, 0.0)
        claim["verdict"] = said if chance <= LEVEL else "undecided"
        # four decimals, so that other versions of scipy give the same record
        claim |= {key: round(x, 4) for key in NUMBERS if isinstance(x := claim[key], float)}
    return judged


def _judged(frame: Frame, claim: Mapping[str, Any]) -> dict[str, Any]:
    """The effect of one claim, its interval and p. Only runs on one kind of machine are a pair."""
    metric, gap = claim["metric"], claim["gap"]
    ours, theirs = (_figures(frame, claim[key], metric) for key in ("better", "worse"))
    common = sorted(ours.keys() & theirs.keys())
    found: dict[str, Any] = dict.fromkeys(("effect", "low", "high", "p", "p_worse"))
    if not common:
        return {"n": 0, "over": "", **found}
    pairs = pairs_of([(ours[key], theirs[key]) for key in common])
    found["effect"] = pairs.effect
    if len(common) < MIN_SEEDS:
        return {"n": len(common), "over": "", **found}
    of_pair = estimate(pairs.each)
    if of_pair.error:
        half = of_pair.half()
        found |= {"low": of_pair.effect - half, "high": of_pair.effect + half}
        found |= {"p": of_pair.at_most(gap), "p_worse": 1 - of_pair.at_most(-gap)}
    return {"n": len(common), "over": "seeds" if pairs.right is None else "seeds, images", **found}


def _figures(frame: Frame, row: str, metric: str) -> dict[tuple[Any, ...], Measured]:
    """{(seed, machine): figure} of the runs of a row that have one."""
    lines = frame.rows[row].to_dict("records") if row in frame.rows else []
    return {
        (line["seed"], line["machine"]): Measured(line[metric], line["correct"].get(correct_name(metric)))
        for line in lines if metric in line and line[metric] == line[metric]
    }  # fmt: skip


def effects_against(frame: Frame, metrics: Sequence[str], against: str) -> tuple[Grid, list[dict[str, Any]]]:
    """The effect of every other row of a section on each metric against one row, and what was judged.

    Args:
        against: a row as the table shows it.
    """
    shown = frame.shown()
    first = next(name for name, short in shown.items() if short == against)
    claims = [
        {"better": name, "worse": first, "metric": metric, "gap": 0.0}
        for name in frame.rows if name != first for metric in metrics
        if frame.values(name, metric) and frame.values(first, metric)
    ]  # fmt: skip
    judged = {(claim["better"], claim["metric"]): claim for claim in judge(frame, claims)}
    for claim in judged.values():
        if lower_is_better(claim["metric"]):
            claim["verdict"] = {"better": "worse", "worse": "better"}.get(claim["verdict"], claim["verdict"])
    names = [name for name in frame.rows if name != first]
    columns = [Column(m, [effect_text(judged.get((name, m))) for name in names]) for m in metrics]
    return Grid([Column(f"against {against}", [shown[name] for name in names]), *columns]), [*judged.values()]


def effect_text(claim: Mapping[str, Any] | None) -> str:
    """`+1.20 [+0.31, +2.09] better`; of fewer than three common seeds the difference alone."""
    if claim is None or claim["effect"] is None:
        return "-"
    return f"{interval_text(claim)} {claim['verdict']}" if claim["low"] is not None else interval_text(claim)


def interval_text(claim: Mapping[str, Any]) -> str:
    """`+1.30 [+0.20, +2.40]`; without an interval the effect alone."""
    if claim["effect"] is None:
        return "-"
    interval = f" [{claim['low']:+z.2f}, {claim['high']:+z.2f}]" if claim["low"] is not None else ""
    return f"{claim['effect']:+z.2f}{interval}"
