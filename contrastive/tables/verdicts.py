"""Whether the claims of a table hold, judged by paired tests over seeds; the claims as a grid of text."""

from statistics import mean
from typing import Any

from contrastive.errors import ConfigError
from contrastive.tables.record import device_of
from contrastive.tables.spec import look_up, published_heading, published_number

MIN_SEEDS = 3
VERDICTS = ("holds", "does not hold", "undecided", "not run")
LEGEND = (
    "Claims: effect = mean difference over common seeds with its 95 % interval (paired t-test); p = one-sided, for an "
    "effect above the gap, which is 0 unless given. holds: the whole interval lies above the gap. does not hold: the "
    "whole interval lies below it. undecided: the interval contains the gap, or there are fewer than "
    f"{MIN_SEEDS} common seeds. not run: there is none. Neither intervals nor p are corrected for the number of claims."
)


def judge_claims(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Every claim of a record with `effect`, `low`, `high`, `n`, `p`, `verdict` and the published effect, if any.

    Raises:
        ConfigError: scipy is not installed.
    """
    rows = {row["name"]: row for row in record["rows"]}
    return [
        {**claim, **_judge(record, claim, rows[claim["better"]], rows[claim["worse"]])} for claim in record["claims"]
    ]


def _judge(
    record: dict[str, Any], claim: dict[str, Any], better: dict[str, Any], worse: dict[str, Any]
) -> dict[str, Any]:
    metric = claim["metric"]
    ours, theirs = (_by_seed_and_device(record, row, metric) for row in (better, worse))
    differences = [ours[pair] - theirs[pair] for pair in sorted(ours.keys() & theirs.keys())]
    figures = [published_number(row["published"].get(metric, "")) for row in (better, worse)]
    published = None if figures[0] is None or figures[1] is None else figures[0] - figures[1]
    effect = mean(differences) if differences else None
    low, high, p = paired_test(differences, claim["gap"]) if len(differences) >= MIN_SEEDS else (None, None, None)
    numbers = {"effect": effect, "low": low, "high": high, "p": p, "published_effect": published}
    # four decimals, so that other versions of scipy give the same record
    rounded = {name: None if number is None else round(number, 4) for name, number in numbers.items()}
    judged = verdict(low, high, claim["gap"]) if differences else "not run"
    return {"n": len(differences), **rounded, "verdict": judged}


def _by_seed_and_device(record: dict[str, Any], row: dict[str, Any], metric: str) -> dict[tuple[int, str], float]:
    """{(seed, processor): metric}: other processors round differently, so that only runs on one kind are a pair."""
    values = {(run["seed"], device_of(record, run)): look_up(run, metric) for run in row["runs"]}
    return {pair: value for pair, value in values.items() if value is not None}


def verdict(low: float | None, high: float | None, gap: float) -> str:
    """One of VERDICTS, as LEGEND says, of rows with common seeds."""
    if low is None or high is None:
        return "undecided"
    return "holds" if low > gap else "does not hold" if high < gap else "undecided"


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


def claims_grid(record: dict[str, Any]) -> list[list[str]]:
    """The judged claims as cells of text, the head first; the columns of gaps and published effects only if needed."""
    claims = judge_claims(record)
    gaps, published = any(c["gap"] for c in claims), any(c["published_effect"] is not None for c in claims)
    table = [["claim", "verdict", "effect [95 % interval]", "n", "p"]]
    table[0] += [*(["gap"] if gaps else []), *([published_heading(record)] if published else []), "metric", "source"]
    for c in claims:
        line = [claim_text(c), c["verdict"], interval_text(c), str(c["n"]), "" if c["p"] is None else p_text(c["p"])]
        line += [*([f"{c['gap']:g}"] if gaps else []), *([signed(c["published_effect"])] if published else [])]
        table.append([*line, str(record["metrics"][c["metric"]]), c["source"]])
    return table


def claim_text(claim: dict[str, Any]) -> str:
    """Which row is better than which; what both names end in stands once: `FairKL > CE (rho 0.99)`."""
    better, worse = claim["better"].split(", "), claim["worse"].split(", ")
    shared: list[str] = []
    while min(len(better), len(worse)) > 1 and better[-1] == worse[-1]:
        shared.insert(0, better.pop())
        worse.pop()
    where = f" ({', '.join(shared)})" if shared else ""
    return f"{', '.join(better)} > {', '.join(worse)}{where}"


def interval_text(claim: dict[str, Any]) -> str:
    """`+1.30 [+0.20, +2.40]`; without an interval the effect alone."""
    if claim["effect"] is None:
        return "-"
    interval = f" [{claim['low']:+.2f}, {claim['high']:+.2f}]" if claim["low"] is not None else ""
    return f"{claim['effect']:+.2f}{interval}"


def p_text(p: float) -> str:
    """p to two digits."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def signed(value: float | None) -> str:
    """A difference with its sign; nothing for none."""
    return "" if value is None else f"{value:+.2f}"
