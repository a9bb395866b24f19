"""How a method is searched: which points, which of them again as finalists, which is chosen, and what is left to find.

Nothing else knows of the optimizer: another one is another version of the public functions here. The first points are
those of a sequence that all methods share. The others follow from a Gaussian process over the knobs of the method,
fitted to what its points were worth: a smooth function on the unit box, log-scaled where the range is, with a length
for each knob, seen through noise (Rasmussen & Williams 2006, section 2.2). New points are where mean plus standard
deviations is highest (Srinivas et al. 2010, arXiv:0912.3995), several at once by taking the model's mean for what those
before them are worth (the kriging believer of Ginsbourger et al. 2010). All of it follows from the points and their
values alone.
"""

import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import ceil, inf
from statistics import mean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contrastive.study.compare.space import Knob, point_at, points, sobol

if TYPE_CHECKING:
    from sklearn.gaussian_process import GaussianProcessRegressor

FEW = 8  # points, below which the sequence goes on alone, and nothing is said of the surface
BATCH = 4  # points that are proposed at a time
FINALISTS = 2  # points that get two more seeds
N_WIDE, N_NEAR, NEAR = 256, 24, 0.08  # candidates in the whole box, and beside each of the best three, so far away
# Bounds that keep few points from being called noise (`LENGTHS`, `NOISE`: of the variance), measured on surfaces with
# an optimum that a tenth of the box shows; EAGER standard deviations count as much as the mean.
LENGTHS, NOISE, EAGER = (0.1, 1.0), (0.02, 0.3), 3.0
DEPTH = 1.0  # points further below the median than this many times the best is above it count as that far below
N_SURFACES = 300

Point = Mapping[str, Any]
Rows = tuple[tuple[float, ...], ...]


class Tried(NamedTuple):
    """A point of a search: all that is searched with its values, and what its runs were worth, the first seed first and
    -inf where one failed."""

    settings: Point
    values: Sequence[float]


def n_points(knobs: Sequence[Knob], budget: int) -> int:
    """Points of a whole search: one where there is nothing to search."""
    return budget if knobs else 1


def described(budget: int) -> str:
    """A search of so many points in words."""
    n = _n_first(budget)
    first = f" ({n} of them spread evenly, then {BATCH} at a time)" if n < budget else ""
    return f"{budget} points{first}, {FINALISTS} finalists with two more seeds"


def _n_first(budget: int) -> int:
    """Points that follow from no value: a quarter, and five at the least."""
    return max(5, ceil(budget / 4)) if budget >= FEW else budget


def first_points(knobs: Sequence[Knob], budget: int, *, draw: int) -> list[dict[str, str]]:
    """The points that follow from no value, the default settings first.

    Args:
        draw: of the sequence, another one for each search.
    """
    return points(knobs, _n_first(budget), draw=draw) if knobs else [{}]


def next_points(knobs: Sequence[Knob], budget: int, tried: Sequence[Tried], *, draw: int) -> list[dict[str, str]]:
    """The points that are tried next, where all before them have been; none when the search is over."""
    n = min(BATCH, n_points(knobs, budget) - len(tried))
    return proposals(knobs, tried, n, draw=draw + len(tried)) if n > 0 else []


def finalists(knobs: Sequence[Knob], budget: int, tried: Sequence[Tried]) -> list[int]:
    """The places of the best points; none that failed.

    A point is worth the model's mean there, which tells luck from settings, or without a model its run.

    Args:
        tried: all of them, with their first run alone.
    """
    is_seen = knobs and _n_first(budget) < budget
    worth = smoothed(knobs, tried) if is_seen else [one.values[0] for one in tried]
    order = sorted(range(len(tried)), key=lambda i: -worth[i])
    return [i for i in order if worth[i] > -inf][:FINALISTS]


def best(last: Sequence[Tried]) -> int:
    """Which of the finalists is chosen: the best mean, where a run that failed is the worst."""
    return max(range(len(last)), key=lambda i: mean(last[i].values))


def proposals(knobs: Sequence[Knob], tried: Sequence[Tried], n: int, *, draw: int) -> list[dict[str, str]]:
    """The next n points of a model.

    Args:
        draw: of the candidates.
    """
    places, values = _runs(knobs, tried)
    known = [{key: str(value) for key, value in one.settings.items()} for one in tried]
    candidates = _candidates(knobs, tried, draw)
    candidates = [point for point in candidates if point not in known] or candidates
    at = [place for point in candidates if (place := _place(knobs, point)) is not None]
    found: list[dict[str, str]] = []
    surface = _surface(places, values)
    for _ in range(n):
        height, sd = surface.predict(at, return_std=True)
        order = np.argsort(-(height + EAGER * sd), kind="stable")
        highest = next((i for i in order if candidates[i] not in found), order[0])
        found.append(candidates[highest])
        places, values = (*places, at[highest]), (*values, float(height[highest]))
        surface = _through(surface.kernel_, surface.alpha, places, values)
    return found


def smoothed(knobs: Sequence[Knob], tried: Sequence[Tried]) -> list[float]:
    """What each point is worth by the model, -inf for one whose runs failed; its own mean where it has no place."""
    worth = [mean(one.values) for one in tried]
    able = {i: place for i, one in enumerate(tried)
            if worth[i] > -inf and (place := _place(knobs, one.settings)) is not None}  # fmt: skip
    if able:
        smooth = surface_of(knobs, tried).predict(list(able.values()))
        worth = [round(float(smooth[[*able].index(i)]), 4) if i in able else own for i, own in enumerate(worth)]
    return worth


def left_to_find(
    knobs: Sequence[Knob], searches: Sequence[Sequence[Tried]], chosen: Sequence[Point]
) -> list[dict[str, float]] | None:
    """What more search of a method could bring each of its searches: the best of the surface over the value at the
    point that it chose. One surface goes through the points of all searches, so that one of them tells the others what
    they missed.

    Args:
        chosen: the settings of the point that each of the searches chose.

    Returns:
        {mean, low, high, sd} of each search over surfaces that agree with the points, in points of accuracy: a range of
        90 %, and the standard deviation of the mean over the searches. None where there is no model: fewer than eight
        points in a search, or none that could be trained.
    """
    if not knobs or min(map(len, searches), default=0) < FEW:
        return None
    if any(all(-inf in one.values for one in tried) for tried in searches):
        return None
    surface, level = _through_all(knobs, searches)
    tried = [own for one in level for own in one]
    at = [_place(knobs, point) for point in (*chosen, *_candidates(knobs, tried, draw=0))]
    if None in at[: len(chosen)]:
        return None
    drawn = surface.sample_y(at, N_SURFACES, random_state=0)
    gains = drawn.max(0) - drawn[: len(chosen)]
    ranges = np.quantile(gains, [0.05, 0.95], axis=1)
    sd = gains.mean(0).std()
    return [
        {key: round(float(x), 2) for key, x in zip(("mean", "low", "high", "sd"), own, strict=True)}
        for own in zip(gains.mean(1), *ranges, [sd] * len(chosen), strict=True)
    ]


def _through_all(
    knobs: Sequence[Knob], searches: Sequence[Sequence[Tried]]
) -> tuple["GaussianProcessRegressor", list[list[Tried]]]:
    """One surface through the runs of several searches, and these with their figures on one level: each search has
    held-out images of its own, which are a little harder or easier."""
    level = [list(tried) for tried in searches]
    surface = surface_of(knobs, [own for tried in level for own in tried])
    for _ in range(2 if len(level) > 1 else 0):
        for i, tried in enumerate(level):
            places, values = _runs(knobs, tried)
            harder = float(np.mean(np.array(values) - surface.predict(places)))
            level[i] = [Tried(own.settings, [value - harder for value in own.values]) for own in tried]
        surface = surface_of(knobs, [own for tried in level for own in tried])
    return surface, level


def surface_of(knobs: Sequence[Knob], tried: Sequence[Tried]) -> "GaussianProcessRegressor":
    """The surface through the runs of points, of a unit box."""
    return _surface(*_runs(knobs, tried))


def _place(knobs: Sequence[Knob], point: Point) -> tuple[float, ...] | None:
    """Where a point lies for the model: a number for each knob, and one for each value of a choice; None where a
    setting has no place."""
    found: list[float] = []
    for knob in knobs:
        if knob.choices:
            found += [float(str(point.get(knob.key)) == choice) for choice in knob.choices]
        elif (place := knob.place(point)) is not None:
            found.append(place)
        else:
            return None
    return tuple(found)


def _runs(knobs: Sequence[Knob], tried: Sequence[Tried]) -> tuple[Rows, tuple[float, ...]]:
    """The place and the worth of every run. One that failed, or fell off a cliff, is worth no less than a bottom: the
    surface is smooth, and what matters is its top."""
    placed = [(place, value) for point, values in tried if (place := _place(knobs, point)) is not None
              for value in values]  # fmt: skip
    finite = [value for _, value in placed if value > -inf] or [0.0]
    middle = float(np.median(finite))
    bottom = max(min(finite), middle - DEPTH * (max(finite) - middle))
    return tuple(place for place, _ in placed), tuple(max(value, bottom) for _, value in placed)


def _candidates(knobs: Sequence[Knob], tried: Sequence[Tried], draw: int) -> list[dict[str, str]]:
    """Points of the whole box, and some near the best that were tried."""
    worth = smoothed(knobs, tried)
    highest = sorted(range(len(tried)), key=lambda i: -worth[i])[:3]
    rng = np.random.default_rng(draw)
    near = [np.clip(unit + NEAR * rng.standard_normal((N_NEAR, len(knobs))), 0, 1).tolist()
            for i in highest if (unit := _unit(knobs, tried[i].settings)) is not None]  # fmt: skip
    wide = [row[: len(knobs)] for row in sobol(N_WIDE, draw)]
    return [point_at(knobs, row) for row in [*wide, *(row for rows in near for row in rows)]]


def _unit(knobs: Sequence[Knob], point: Point) -> NDArray[np.float64] | None:
    """The coordinates of a point in the box that `point_at` takes; None where a setting has none."""
    found = []
    for knob in knobs:
        value = str(point.get(knob.key))
        place = (knob.choices.index(value) + 0.5) / len(knob.choices) if value in knob.choices else knob.place(point)
        if place is None:
            return None
        found.append(place)
    return np.array(found)


@lru_cache(maxsize=64)
def _surface(places: Rows, values: tuple[float, ...]) -> "GaussianProcessRegressor":
    """The surface through runs, without their noise."""
    from sklearn.exceptions import ConvergenceWarning  # late: they take a second
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    smooth = ConstantKernel(1.0, (0.1, 20)) * Matern([0.4] * len(places[0]), LENGTHS, nu=2.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a bound that holds is no news
        noisy = GaussianProcessRegressor(smooth + WhiteKernel(0.1, NOISE), normalize_y=True).fit(places, values)
    return _through(noisy.kernel_.k1, noisy.kernel_.k2.noise_level, places, values)


def _through(kernel: Any, noise: float, places: Rows, values: Sequence[float]) -> "GaussianProcessRegressor":
    """The surface of a kernel through runs with this share of noise."""
    from sklearn.gaussian_process import GaussianProcessRegressor

    return GaussianProcessRegressor(kernel, alpha=noise, optimizer=None, normalize_y=True).fit(places, values)
