"""Whether one row of a frame is better than another, judged over seeds and test images; claims as a grid of text."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

import numpy as np

from contrastive.bits import unpack
from contrastive.study.frame import Frame
from contrastive.study.record import correct_name, is_best_test, record_frame
from contrastive.study.spec import published_heading, published_number
from contrastive.study.statistics import holm, paired_test, two_way_test

MIN_SEEDS = 3
NUMBERS = ("effect", "low", "high", "p", "p_holm")  # of a judged claim
VERDICTS = ("holds", "holds uncorrected", "undecided", "does not hold", "not run")
LEGEND = (
    "Effects are mean differences over common seeds. A claim holds if its interval lies above the gap, 0 unless given, "
    "also after Holm's correction for the table's claims. Uncorrected means only before it. A claim does not hold if "
    "its interval lies below the gap. It is undecided if the interval contains the gap, or with fewer than "
    f"{MIN_SEEDS} common seeds. The method: studies/README.md, Claims."
)


def judge_claims(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Every claim of a record with `effect`, `low`, `high`, `over`, `n`, `p`, `p_holm`, `verdict` and the published
    effect, if any.

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


def judge(frame: Frame, claims: Sequence[Mapping[str, Any]], *, two_sided: bool = False) -> list[dict[str, Any]]:
    """Judge each claim {better, worse, metric, gap} between two rows of a frame over common seeds and test images.

    p is corrected for the number of claims.

    Args:
        two_sided: whether either row may be the better one. Then p is half that of an effect in either direction, so
            that the same 0.025 decides.
    """
    judged = [{**claim, **_judge(frame, claim)} for claim in claims]
    for claim in judged if two_sided else ():
        claim["p"] = None if claim["p"] is None else min(claim["p"], 1 - claim["p"])
    corrected = iter(holm([claim["p"] for claim in judged if claim["p"] is not None]))
    for claim in judged:
        claim["p_holm"] = None if claim["p"] is None else next(corrected)
        outcome = verdict(claim["low"], claim["high"], claim["gap"], claim["p_holm"])
        if two_sided and claim["p_holm"] is not None and claim["p_holm"] > 0.025:
            outcome = "undecided"
        claim["verdict"] = outcome if claim["n"] else "not run"
        # four decimals, so that other versions of scipy give the same record
        claim |= {key: round(x, 4) for key in NUMBERS if isinstance(x := claim[key], float)}
    return judged


def _judge(frame: Frame, claim: Mapping[str, Any]) -> dict[str, Any]:
    """The effect of one claim, its interval and p. Other processors round differently: only runs on one are a pair."""
    metric, rows = claim["metric"], frame.rows
    nothing = frame.table.iloc[:0]
    ours, theirs = (
        {(line["seed"], line["processor"]): line for line in rows.get(claim[key], nothing).to_dict("records")
         if metric in line and line[metric] == line[metric]}
        for key in ("better", "worse")
    )  # fmt: skip
    pairs = [(ours[key], theirs[key]) for key in sorted(ours.keys() & theirs.keys())]
    differences = [a[metric] - b[metric] for a, b in pairs]
    low, high, p, over = None, None, None, ""
    if len(differences) >= MIN_SEEDS:
        images = [(_correct(a, metric), _correct(b, metric)) for a, b in pairs]
        if all(a is not None and b is not None and len(a) == len(b) == len(images[0][0]) for a, b in images):
            right = np.array(images, dtype=float)  # (seeds, 2, images)
            over = "seeds, images"
            low, high, p = two_way_test(100 * (right[:, 0] - right[:, 1]), claim["gap"])
        else:
            over = "seeds"
            low, high, p = paired_test(differences, claim["gap"])
    effect = mean(differences) if differences else None
    return {"n": len(differences), "over": over, "effect": effect, "low": low, "high": high, "p": p}


def _correct(line: Mapping[str, Any], metric: str) -> Any:
    """(N,) bool: the test images that a run's accuracy counts as right; None where it is not known."""
    text = line["correct"].get(correct_name(metric))
    right = None if text is None else unpack(text)
    return right if right is not None and abs(100 * right.mean() - line[metric]) < 0.01 else None


def verdict(low: float | None, high: float | None, gap: float, p: float | None = None) -> str:
    """One of VERDICTS, as LEGEND says, of rows with common seeds.

    Args:
        p: corrected; None where there is none.
    """
    if low is None or high is None or low <= gap <= high:
        return "undecided"
    if high < gap:
        return "does not hold"
    return "holds" if p is None or p <= 0.025 else "holds uncorrected"


def effects_against(frame: Frame, metrics: Sequence[str], against: str) -> tuple[list[list[str]], int]:
    """The effect of every other row of a section on each metric against one row, as cells, and how many are judged.

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
    judged = {(claim["better"], claim["metric"]): claim for claim in judge(frame, claims, two_sided=True)}
    rows = [[shown[name], *(effect_text(judged.get((name, metric))) for metric in metrics)]
            for name in frame.rows if name != first]  # fmt: skip
    return [[f"against {against}", *metrics], *rows], len(judged)


def effect_text(claim: Mapping[str, Any] | None) -> str:
    """`+1.20 [+0.31, +2.09] better`; of fewer than three common seeds the difference alone."""
    if claim is None or claim["effect"] is None:
        return "-"
    word = {"holds": "better", "does not hold": "worse"}.get(claim["verdict"], "undecided")
    return f"{interval_text(claim)} {word}" if claim["low"] is not None else interval_text(claim)


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
            p_text(c["p_holm"]),
        ]
        line += [*([f"{c['gap']:g}"] if gaps else []), *([signed(c["published_effect"])] if published else [])]
        table.append([*line, c["source"]])
    return table


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
    interval = f" [{claim['low']:+.2f}, {claim['high']:+.2f}]" if claim["low"] is not None else ""
    return f"{claim['effect']:+.2f}{interval}"


def p_text(p: float | None) -> str:
    """p to two digits; nothing for none."""
    if p is None:
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def signed(value: float | None) -> str:
    """A difference with its sign; nothing for none."""
    return "" if value is None else f"{value:+.2f}"
