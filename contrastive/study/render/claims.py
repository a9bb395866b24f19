"""The judged claims of a table, and rows judged against one of them, as grids of text."""

from collections.abc import Mapping, Sequence
from typing import Any

from contrastive.study.frame import Frame, lower_is_better
from contrastive.study.judge import MIN_SEEDS, judge, judge_claims
from contrastive.study.record import is_best_test
from contrastive.study.spec import published_heading

LEGEND = (
    "Effects are mean differences over common seeds. better: the first row is, by more than the gap, 0 unless given. "
    "worse: the second is. Both are said after Holm's correction for the table's claims, of a p of one side: 0.025 and "
    "below. equal: the interval lies "
    "within the gap. undecided: all others, among them intervals that leave 0 out before the correction alone, and "
    f"fewer than {MIN_SEEDS} common seeds. The method: studies/README.md, Claims."
)


def effects_against(frame: Frame, metrics: Sequence[str], against: str) -> tuple[list[list[str]], list[dict[str, Any]]]:
    """The effect of every other row of a section on each metric against one row, as cells, and what was judged.

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
    rows = [[shown[name], *(effect_text(judged.get((name, metric))) for metric in metrics)]
            for name in frame.rows if name != first]  # fmt: skip
    return [[f"against {against}", *metrics], *rows], [*judged.values()]


def effect_text(claim: Mapping[str, Any] | None) -> str:
    """`+1.20 [+0.31, +2.09] better`; of fewer than three common seeds the difference alone."""
    if claim is None or claim["effect"] is None:
        return "-"
    return f"{interval_text(claim)} {claim['verdict']}" if claim["low"] is not None else interval_text(claim)


def claims_grid(record: dict[str, Any]) -> list[list[str]]:
    """The judged claims as cells of text, the head first; the columns of gaps and published effects only if needed."""
    claims = judge_claims(record)
    gaps, published = any(c["gap"] for c in claims), any(c["published_effect"] is not None for c in claims)
    table = [["claim", "verdict", "effect [95 % interval]", "metric", "n", "over", "p (Holm)"]]
    table[0] += [*(["gap"] if gaps else []), *([published_heading(record)] if published else []), "source"]
    for c in claims:
        line = [
            claim_text(c),
            c["verdict"],
            interval_text(c),
            _metric_text(record, c),
            str(c["n"]),
            c["over"],
            _p_text(c),
        ]
        line += [*([f"{c['gap']:g}"] if gaps else []), *([signed(c["published_effect"])] if published else [])]
        table.append([*line, c["source"]])
    return table


def _p_text(claim: dict[str, Any]) -> str:
    """The corrected p of better; beside it that of worse, where the interval lies on that side."""
    is_below = claim["high"] is not None and claim["high"] < -claim["gap"]
    return p_text(claim["p_holm"]) + (f" (worse: {p_text(claim['p_worse'])})" if is_below else "")


def _metric_text(record: dict[str, Any], claim: dict[str, Any]) -> str:
    """The heading of a claim's metric, and which of its rows are read at the epoch that was best on the test split."""
    name = str(record["metrics"][claim["metric"]])
    if "best_test" in claim["metric"]:
        return f"{name} (best test epoch)"
    rows = [row for row in record["rows"] if row["name"] in (claim["better"], claim["worse"])]
    selected = [row["name"].removesuffix(f", {row['point']}") for row in rows if is_best_test(row, claim["metric"])]
    return f"{name} ({' and '.join(selected)}: best test epoch)" if selected else name


def claim_text(claim: dict[str, Any]) -> str:
    """Which row is better than which; what both names end in stands once: `FairKL > CE (rho 0.99)`."""
    better, worse = claim["better"].split(", "), claim["worse"].split(", ")
    shared: list[str] = []
    while min(len(better), len(worse)) > 1 and better[-1] == worse[-1]:
        shared.insert(0, better.pop())
        worse.pop()
    where = f" ({', '.join(shared)})" if shared else ""
    return f"{', '.join(better)} > {', '.join(worse)}{where}"


def interval_text(claim: Mapping[str, Any]) -> str:
    """`+1.30 [+0.20, +2.40]`; without an interval the effect alone."""
    if claim["effect"] is None:
        return "-"
    interval = f" [{claim['low']:+z.2f}, {claim['high']:+z.2f}]" if claim["low"] is not None else ""
    return f"{claim['effect']:+z.2f}{interval}"


def p_text(p: float | None) -> str:
    """p to two digits; nothing for none."""
    if p is None:
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def signed(value: float | None) -> str:
    """A difference with its sign; nothing for none."""
    return "" if value is None else f"{value:+.2f}"
