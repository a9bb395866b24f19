"""Intervals and tests of a difference between two methods, over seeds alone or over seeds and test images."""

import math
from collections.abc import Sequence
from statistics import mean
from typing import Any, NamedTuple

from contrastive.errors import ConfigError

LEVEL = 0.95


class Interval(NamedTuple):
    """The ends of the 95 % interval of a mean difference, and p of the one-sided test that it is at most the gap.

    Differences that are all equal say nothing of their spread: they have neither.
    """

    low: float | None
    high: float | None
    p: float | None


class Estimate(NamedTuple):
    """A mean difference, its standard error (0: all differences are equal) and the degrees of freedom of its t."""

    effect: float
    error: float
    df: float

    @property
    def half(self) -> float:
        """Half the length of the 95 % interval."""
        return _quantile(self.df) * self.error if self.error else 0.0

    def above(self, gap: float = 0.0) -> float | None:
        """p of the one-sided test that the difference is at most the gap."""
        return _tail((self.effect - gap) / self.error, self.df) if self.error else None

    def differs(self) -> float | None:
        """p of the two-sided test that there is no difference."""
        return 2 * _tail(abs(self.effect) / self.error, self.df) if self.error else None

    def equal(self, margin: float) -> float | None:
        """p of the test that the difference is at least the margin in either direction; twice that of each (TOST), so
        that 0.05 decides as with `differs`: then the 95 % interval lies inside of the margin."""
        if not self.error:
            return None
        return 2 * max(_tail((margin + sign * self.effect) / self.error, self.df) for sign in (-1, 1))

    def interval(self, gap: float = 0.0) -> Interval:
        """The interval, and p for an effect above the gap."""
        if not self.error:
            return Interval(None, None, None)
        return Interval(self.effect - self.half, self.effect + self.half, self.above(gap))


def paired_test(differences: Sequence[float], gap: float = 0.0) -> Interval:
    """`paired_estimate` as an interval.

    Raises:
        ConfigError: scipy is not installed.
    """
    return paired_estimate(differences).interval(gap)


def paired_estimate(differences: Sequence[float]) -> Estimate:
    """Paired t-test over seeds: what other seeds would give on the same test images.

    Args:
        differences: of each seed, at least two.
    """
    effect, n = mean(differences), len(differences)
    variance = sum((x - effect) ** 2 for x in differences) / (n - 1) / n
    return _estimate(effect, variance, n - 1)


def two_way_test(differences: Any, gap: float = 0.0) -> Interval:
    """`two_way_estimate` as an interval.

    Raises:
        ConfigError: scipy is not installed.
    """
    return two_way_estimate(differences).interval(gap)


def two_way_estimate(differences: Any) -> Estimate:
    """Crossed random effects: what other rows would give on other test images of the same kind.

    Of a table with a row for each seed, or for each search, and a column for each image, the variance of the mean is
    (MS_rows + MS_images - MS_rest) / (R I), by the mean squares of a two-way analysis of variance without repetition,
    but never less than that of the rows alone; its degrees of freedom are Satterthwaite's (1946), at least R - 1. See
    Searle, Casella and McCulloch 1992, Variance Components. Where few rows happen to agree, that gives an interval
    shorter than the one for these rows on other images: then the latter is returned, with `least_error` at least.

    Args:
        differences: (R, I) with R, I >= 2, of each row and image, in points: 100 where one is right and one is wrong.
    """
    effect, shares = float(differences.mean()), variance_shares(differences)
    (rows, df_of_rows), (images, df_of_images), _ = shares
    variance = max(sum(share for share, _ in shares), rows)
    spread = sum(share**2 / df for share, df in shares)
    both = _estimate(effect, variance, max(variance**2 / spread, df_of_rows) if spread else df_of_rows)
    alone = max(images, least_error(differences.shape[1]) ** 2)
    return max(both, _estimate(effect, alone, df_of_images), key=lambda estimate: estimate.half)


def variance_shares(differences: Any) -> list[tuple[float, int]]:
    """(share in the variance of the mean, degrees of freedom) of rows, images and rest, see `two_way_estimate`."""
    n_rows, n_images = differences.shape
    effect, rows, images = float(differences.mean()), differences.mean(1), differences.mean(0)
    rest = differences - rows[:, None] - images[None] + effect
    of_rest = (n_rows - 1) * (n_images - 1)
    return [
        (float(rows.var(ddof=1)) / n_rows, n_rows - 1),
        (float(images.var(ddof=1)) / n_images, n_images - 1),
        (-float((rest**2).sum()) / of_rest / (n_rows * n_images), of_rest),
    ]


def least_error(n_images: int) -> float:
    """The least standard error, in points, of a difference of accuracies: that of paired proportions that never differ
    (Agresti and Min 2005, Statistics in Medicine 24). Near 100 % images that are all judged alike do not say that
    others would be."""
    return 100 / (n_images + 2)


def image_floor(differences: Any) -> float:
    """The standard error of the mean difference that no number of rows removes: that of these test images, and at least
    `least_error`."""
    _, (images, _), (rest, _) = variance_shares(differences)
    return math.sqrt(max(least_error(differences.shape[1]) ** 2, images + rest))


def holm(values: Sequence[float], most: int | None = None) -> list[float]:
    """The p of several tests, corrected for their number (Holm 1979).

    To call those at most α findings makes a false one among them no likelier than α.

    Args:
        most: how many of the hypotheses can be true at once (Shaffer 1986), such as half of them where each claim is
            tested for a difference and for equality; None = all.
    """
    corrected, largest = [0.0] * len(values), 0.0
    for rank, i in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        factor = len(values) - rank if most is None else min(most, len(values) - rank)
        largest = max(largest, min(1.0, factor * values[i]))
        corrected[i] = largest
    return corrected


MOST_ROWS = 1000


def rows_that_decide(sd: float, floor: float, margin: float) -> int | None:
    """The least number of rows whose interval is no longer than the margin: it then excludes 0 or lies inside of it.

    Args:
        sd: of the difference of one row.
        floor: see `image_floor`.

    Returns:
        None where no number of rows decides.
    """
    for n in range(2, MOST_ROWS):
        if 2 * _of_rows(sd, floor, n).half <= margin:
            return n
    return None


def effect_found(sd: float, floor: float, n: int, power: float = 0.8) -> float:
    """The difference that n rows find with this probability at the level 0.05, two-sided."""
    estimate = _of_rows(sd, floor, n)
    limit = _quantile(estimate.df)
    from scipy.stats import nct  # late: it takes a second

    low, high = 0.0, 100.0 * estimate.error
    for _ in range(60):
        middle = (low + high) / 2
        found = nct.sf(limit, estimate.df, middle / estimate.error)
        low, high = (low, middle) if found >= power else (middle, high)
    return high


def _of_rows(sd: float, floor: float, n: int) -> Estimate:
    """What n rows with this spread and floor give, around 0."""
    of_rows = sd**2 / n
    variance = of_rows + floor**2
    return Estimate(0.0, math.sqrt(variance), max(variance**2 / (of_rows**2 / (n - 1)), n - 1) if of_rows else n - 1)


def probability_better(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The share of all pairs in which ours is higher; a tie counts half (Mann & Whitney 1947)."""
    pairs = [(a, b) for a in ours for b in theirs]
    return sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs)


def best_of(values: Sequence[float], n: int, by: Sequence[float] | None = None) -> float:
    """The expected figure of the best of n of these values, drawn without replacement (Tang et al. 2020,
    arXiv:2004.13705).

    Args:
        by: other figures of the same draws, which choose the best; None = the values themselves, whose best is
            higher than what it is worth.
    """
    order = sorted(range(len(values)), key=(values if by is None else by).__getitem__)
    total = math.comb(len(values), n)
    return sum(values[i] * math.comb(j, n - 1) for j, i in enumerate(order)) / total


def _estimate(effect: float, variance: float, df: float) -> Estimate:
    return Estimate(effect, 0.0 if variance < 1e-24 else math.sqrt(variance), df)


def _quantile(df: float) -> float:
    """The half-length of a 95 % interval, in standard errors."""
    return float(_special().stdtrit(df, 0.5 + LEVEL / 2))


def _tail(t: float, df: float) -> float:
    """The probability that Student's t is above."""
    return float(_special().stdtr(df, -t))


def _special() -> Any:
    try:
        from scipy import special  # late; scipy.stats has the same, and takes a second to import
    except ImportError:
        raise ConfigError("intervals need scipy, which is missing: try pip install -e '.[report]'") from None
    return special
