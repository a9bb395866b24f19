"""95 % t-intervals of differences, and the paired test, by scipy."""

from typing import Any

from contrastive.errors import ConfigError


def paired_test(differences: list[float], gap: float = 0.0) -> tuple[float, float, float | None]:
    """The ends of the 95 % interval of the mean of paired differences, and p of the test that it is at most `gap`.

    Differences that are all equal have an interval of length 0 and no p.

    Args:
        differences: at least two.

    Raises:
        ConfigError: scipy is not installed.
    """
    if max(differences) - min(differences) < 1e-12:
        return differences[0], differences[0], None
    stats = _stats()
    ends = stats.ttest_1samp(differences, gap).confidence_interval(0.95)
    p = stats.ttest_1samp(differences, gap, alternative="greater").pvalue
    return float(ends.low), float(ends.high), float(p)


def welch_interval(b: list[float], a: list[float]) -> tuple[float, float]:
    """The ends of Welch's 95 % interval of mean(b) - mean(a), each of at least two values.

    Raises:
        ConfigError: scipy is not installed.
    """
    ends = _stats().ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    return float(ends.low), float(ends.high)


def _stats() -> Any:
    try:
        from scipy import stats  # late: it takes a second
    except ImportError:
        raise ConfigError("intervals need scipy, which is missing: try pip install -e '.[report]'") from None
    return stats
