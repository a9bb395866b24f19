"""Intervals and tests of a difference between two methods, over seeds alone or over seeds and test images."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from statistics import mean
from typing import Any, NamedTuple


class Estimate(NamedTuple):
    """A mean difference, its standard error (0: all differences are equal) and the degrees of freedom of its t."""

    effect: float
    error: float
    df: float

    def half(self, level: float = 0.05) -> float:
        """Half the length of the interval that misses the truth with the probability `level`."""
        return quantile(self.df, level) * self.error if self.error else 0.0

    def at_most(self, x: float = 0.0) -> float:
        """p of the one-sided test that the difference is at most x; with a flat prior, the probability of that."""
        if not self.error:
            return float(self.effect <= x)
        from scipy import special  # late, here and below: it takes a quarter of a second

        return float(special.stdtr(self.df, (x - self.effect) / self.error))

    def widened(self, variance: float, df: float) -> "Estimate":
        """The same effect with a further independent part of its variance, known with so many degrees of freedom; the
        sum has Satterthwaite's (1946)."""
        total = self.error**2 + variance
        spread = self.error**4 / self.df + variance**2 / df
        return Estimate(self.effect, math.sqrt(total), total**2 / spread if spread else self.df)


class Prior(NamedTuple):
    """What the variance of a row is by other tables, and how many degrees of freedom that is worth.

    It moderates the variance of a table with few rows: (d0 s0² + d s²) / (d0 + d) with d0 + d degrees of freedom
    (Smyth 2004, Statistical Applications in Genetics and Molecular Biology 3).
    """

    variance: float = 0.0
    df: float = 0.0

    def moderated(self, variance: float, df: float) -> tuple[float, float]:
        """(variance, degrees of freedom) of a row, from those of a table."""
        total = self.df + df
        return (self.df * self.variance + df * variance) / total, total


NO_PRIOR = Prior()


def paired_estimate(differences: Sequence[float], prior: Prior = NO_PRIOR) -> Estimate:
    """Paired t-test over seeds: what other seeds would give on the same test images.

    Args:
        differences: of each seed, at least two.
        prior: of the variance of one of them.
    """
    effect, n = mean(differences), len(differences)
    variance, df = prior.moderated(sum((x - effect) ** 2 for x in differences) / (n - 1), n - 1)
    return _estimate(effect, variance / n, df)


def two_way_estimate(differences: Any, prior: Prior = NO_PRIOR) -> Estimate:
    """Crossed random effects: what other rows would give on other test images of the same kind.

    Of a table with a row for each seed, or for each search, and a column for each image, the variance of the mean is
    (MS_rows + MS_images - MS_rest) / (R I), by the mean squares of a two-way analysis of variance without repetition,
    but never less than that of the rows alone; its degrees of freedom are Satterthwaite's (1946), at least R - 1. See
    Searle, Casella and McCulloch 1992, Variance Components. Where few rows happen to agree, that gives an interval
    shorter than the one for these rows on other images: then the latter is returned, with `least_error` at least.

    Args:
        differences: (R, I) with R, I >= 2, of each row and image, in points: 100 where one is right and one is wrong.
        prior: of the variance of a row, the mean over these images.
    """
    effect, (rows, images, rest) = float(differences.mean()), variance_shares(differences)
    of_row, df_of_rows = prior.moderated(rows[0] * len(differences), rows[1])
    shares = [(of_row / len(differences), df_of_rows), images, rest]
    variance = max(sum(share for share, _ in shares), shares[0][0])
    spread = sum(share**2 / df for share, df in shares)
    both = _estimate(effect, variance, max(variance**2 / spread, df_of_rows) if spread else df_of_rows)
    alone = max(images[0], least_error(differences.shape[1]) ** 2)
    return max(both, _estimate(effect, alone, images[1]), key=Estimate.half)


def variance_shares(differences: Any) -> list[tuple[float, float]]:
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


def holm(values: Sequence[float]) -> list[float]:
    """The p of several tests, corrected for their number (Holm 1979).

    To call those at most α findings makes a false one among them no likelier than α.
    """
    corrected, largest = [0.0] * len(values), 0.0
    for rank, i in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[i]))
        corrected[i] = largest
    return corrected


MOST_ROWS = 1000


def rows_that_decide(sd: float, floor: float, margin: float, *, level: float = 0.05, prior_df: float = 0) -> int | None:
    """The least number of rows whose interval is no longer than the margin: it then excludes 0 or lies inside of it.

    Args:
        sd: see `of_rows`, as `floor` and `prior_df`.
        level: of the interval.

    Returns:
        None where no number of rows decides.
    """
    rows = range(2, MOST_ROWS)
    i = bisect_left(rows, True, key=lambda n: 2 * of_rows(sd, floor, n, prior_df).half(level) <= margin)
    return rows[i] if i < len(rows) else None


def effect_found(estimate: Estimate, level: float = 0.05, power: float = 0.8) -> float:
    """The difference that a two-sided test at this level, with the error of the estimate, finds with this
    probability."""
    from scipy import special

    limit = quantile(estimate.df, level)
    return estimate.error * float(special.nctdtrinc(estimate.df, 1 - power, limit))


def of_rows(sd: float, floor: float, n: int, prior_df: float = 0) -> Estimate:
    """What n rows give, around 0.

    Args:
        sd: of the difference of one row.
        floor: see `image_floor`.
        prior_df: degrees of freedom of the sd beside those of the rows.
    """
    rows = Estimate(0.0, sd / math.sqrt(n), n - 1 + prior_df)
    return rows.widened(floor**2, math.inf)


def probability_better(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The share of all pairs in which ours is higher; a tie counts half (Mann & Whitney 1947)."""
    pairs = [(a, b) for a in ours for b in theirs]
    return sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs)


def _estimate(effect: float, variance: float, df: float) -> Estimate:
    return Estimate(effect, 0.0 if variance < 1e-24 else math.sqrt(variance), df)


def quantile(df: float, level: float = 0.05) -> float:
    """Half the length of an interval, in standard errors."""
    from scipy import special

    return float(special.stdtrit(df, 1 - level / 2))
