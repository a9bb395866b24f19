"""The claims of a table: judged over common seeds, beside what was published, and as a table of their own."""

import re
from typing import Any

from contrastive.report.frame import record_frame
from contrastive.report.grid import Column, Grid
from contrastive.report.judge import MIN_SEEDS, interval_text, judge

LEGEND = (
    "Effects are mean differences over common seeds. better: the first row is, by more than the gap, 0 unless given. "
    "worse: the second is. Both are said after Holm's correction for the table's claims, of a p of one side: 0.025 and "
    "below. equal: the interval lies "
    "within the gap. undecided: all others, among them intervals that leave 0 out before the correction alone, and "
    f"fewer than {MIN_SEEDS} common seeds. The method: studies/README.md, Claims."
)


def judge_claims(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Every claim of a record as `judge` has it, with the published effect, if any.

    Raises:
        ConfigError: scipy is not installed.
    """
    rows = {row["name"]: row for row in record["rows"]}
    judged = judge(record_frame(record), record["claims"])
    for claim in judged:
        ours, theirs = (
            published_number(rows[claim[key]]["published"].get(claim["metric"], "")) for key in ("better", "worse")
        )
        claim["published_effect"] = None if ours is None or theirs is None else round(ours - theirs, 4)
    return judged


def claims_grid(record: dict[str, Any], claims: list[dict[str, Any]]) -> Grid:
    """The judged claims as a table; the columns of gaps and published effects only if needed."""
    columns: dict[str, list[str]] = {
        "claim": [claim_text(c) for c in claims],
        "verdict": [c["verdict"] for c in claims],
        "effect [95 % interval]": [interval_text(c) for c in claims],
        "metric": [_metric_text(record, c) for c in claims],
        "n": [str(c["n"]) for c in claims],
        "over": [c["over"] for c in claims],
        "p (Holm)": [_p_text(c) for c in claims],
    }
    if any(c["gap"] for c in claims):
        columns["gap"] = [f"{c['gap']:g}" for c in claims]
    if any(c["published_effect"] is not None for c in claims):
        columns[published_heading(record)] = [signed(c["published_effect"]) for c in claims]
    return Grid([Column(*column) for column in [*columns.items(), ("source", [c["source"] for c in claims])]])


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


def p_text(p: float | None) -> str:
    """p to two digits; nothing for none."""
    if p is None:
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def signed(value: float | None) -> str:
    """A difference with its sign; nothing for none."""
    return "" if value is None else f"{value:+.2f}"


def is_published_setting(record: dict[str, Any]) -> bool:
    """Whether a table's runs had the settings of its rows: no preset, no further overrides."""
    return record["preset"] == "paper" and not record["extra"]


def published_heading(record: dict[str, Any]) -> str:
    """The heading of published figures beside ours."""
    return "published" if is_published_setting(record) else "published (other setting)"


def published_number(text: str) -> float | None:
    """The number at the start of a published figure such as `74.3 ± 0.2`; None when there is none."""
    number = re.match(r"-?\d+(\.\d+)?", text)
    return float(number[0]) if number else None


def is_best_test(row: dict[str, Any], metric: str) -> bool:
    """Whether a row's figures of a metric are those of the epoch that was best on the test split."""
    if metric.startswith("audit.reported"):
        return any("best_test" in run["audit"].get("reported", {}).get("read_out", "") for run in row["runs"])
    return "best_test" in metric
