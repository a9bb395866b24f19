"""Intervals and tests of a difference between two methods, over seeds alone or over seeds and test images."""

from collections.abc import Sequence
from statistics import mean
from typing import Any, NamedTuple

from contrastive.errors import ConfigError

LEVEL = 0.95


class Interval(NamedTuple):
    """The ends of the 95 % interval of a mean difference, and p of the one-sided test that it is at most the gap.

    Differences that are all equal have an interval of length 0 and no p.
    """

    low: float
    high: float
    p: float | None


def paired_test(differences: Sequence[float], gap: float = 0.0) -> Interval:
    """Paired t-test over seeds: what other seeds would give on the same test images.

    Args:
        differences: of each seed, at least two.

    Raises:
        ConfigError: scipy is not installed.
    """
    effect, n = mean(differences), len(differences)
    variance = sum((x - effect) ** 2 for x in differences) / (n - 1) / n
    return _test(effect, variance, n - 1, gap)


def two_way_test(differences: Any, gap: float = 0.0) -> Interval:
    """Test of crossed random effects: what other seeds would give on other test images of the same kind.

    Of a table with a row for each seed and a column for each image, the variance of the mean is
    (MS_seeds + MS_images - MS_rest) / (S I), by the mean squares of a two-way analysis of variance without repetition,
    but never less than that of the seeds alone; its degrees of freedom are Satterthwaite's (1946), at least S - 1. See
    Searle, Casella and McCulloch 1992, Variance Components.

    Args:
        differences: (S, I) with S, I >= 2, of each seed and image.

    Raises:
        ConfigError: scipy is not installed.
    """
    n_seeds, n_images = differences.shape
    n, effect = n_seeds * n_images, float(differences.mean())
    seeds, images = differences.mean(1), differences.mean(0)
    rest = differences - seeds[:, None] - images[None] + effect
    parts = [  # (the term's share in the variance of the mean, its degrees of freedom)
        (float(seeds.var(ddof=1)) / n_seeds, n_seeds - 1),
        (float(images.var(ddof=1)) / n_images, n_images - 1),
        (-float((rest**2).sum()) / ((n_seeds - 1) * (n_images - 1)) / n, (n_seeds - 1) * (n_images - 1)),
    ]
    variance = max(sum(share for share, _ in parts), parts[0][0])
    spread = sum(share**2 / df for share, df in parts)
    return _test(effect, variance, max(variance**2 / spread, n_seeds - 1) if spread else n_seeds - 1, gap)


def holm(values: Sequence[float]) -> list[float]:
    """The p of several tests, corrected for their number (Holm 1979).

    To call those at most α findings makes a false one among them no likelier than α.
    """
    corrected, largest = [0.0] * len(values), 0.0
    for rank, i in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[i]))
        corrected[i] = largest
    return corrected


def _test(effect: float, variance: float, df: float, gap: float) -> Interval:
    if variance < 1e-24:
        return Interval(effect, effect, None)
    t, error = _stats().t, variance**0.5
    half = float(t.ppf(0.5 + LEVEL / 2, df)) * error
    return Interval(effect - half, effect + half, float(t.sf((effect - gap) / error, df)))


def _stats() -> Any:
    try:
        from scipy import stats  # late: it takes a second
    except ImportError:
        raise ConfigError("intervals need scipy, which is missing: try pip install -e '.[report]'") from None
    return stats
