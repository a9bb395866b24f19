"""Every interval that a page states is of the study, the pair and the direction that the comment behind it names.

    2.8 (0.1 to 5.6)<!-- fair_search: push > nt_xent -->

A reader does not see the comment. `A > B` is A less B by the metric of the record; `by linear_top1` names another one.
`alone` is a pair of a comparison judged by itself, and `of these runs` leaves the searches out. On one of several data
sets it is `small_mnist: A > B`.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any

import pytest
from tables.kept import study_records
from tables.spec import STUDIES

from contrastive.report.frame import record_frame
from contrastive.report.judge import judge
from contrastive.study.compare.judge import judge_comparison
from contrastive.study.compare.outcome import plan_of
from contrastive.study.compare.plan import Contestant
from contrastive.study.record import read_compared
from contrastive.study.render.effects import claims_of
from tests.helpers import ROOT

Interval = tuple[str, str, str]  # effect, low, high, as they are printed
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(STUDIES.rglob("*.md"))]
RECORDS = study_records()
# 2.5 (1.2 to 3.7), 2.5 points (1.2 to 3.7), 2.5 points of kNN (1.2 to 3.7), or in brackets 2.5, 1.2 to 3.7
STATED = re.compile(r"(-?\d+\.\d)(?: points)?(?: (?:of|by) \w+)?,? \(?(-?\d+\.\d) to (-?\d+\.\d)")
NAMED = re.compile(r"<!-- (\w+): (.+?) -->")


def stated() -> Iterator[tuple[str, list[Interval], list[tuple[str, str]]]]:
    """(page:line, its intervals, the study and the pair of each); choices without labels are those of
    tests/docs/test_label_free.py."""
    for page in PAGES:
        for n, line in enumerate(page.read_text().split("\n"), 1):
            if page.parent.name != "label_free" and STATED.search(line):
                yield f"{page.relative_to(ROOT)}:{n}", STATED.findall(line), NAMED.findall(line)


@cache
def intervals(study: str) -> dict[str, Interval]:
    """{pair: its interval} of a record, of all pairs of its rows in both directions and by all metrics."""
    record = read_compared(RECORDS[study])
    if "datasets" not in record:
        return intervals_of(record)
    parts = [(f"{name}: {pair}", own) for name, part in record["datasets"].items()
             for pair, own in intervals_of(part).items()]  # fmt: skip
    return dict(parts) | both_ways(claims_of(record), "name", "against")


def intervals_of(record: dict[str, Any]) -> dict[str, Interval]:
    compared = record.get("comparison")
    main = plan_of(record).metric if compared else next(iter(record["metrics"]))
    found: dict[str, Interval] = {}
    for part in record_frame(record).sections.values():
        for metric in part.test_metrics():
            pairs = [{"better": a, "worse": b, "metric": metric, "gap": 0.0} for a, b in combinations(part.rows, 2)]
            how = "" if metric == main else f" by {metric}"
            found |= both_ways(judge(part, pairs), "better", "worse", how + " of these runs" * bool(compared))
    if compared:
        plan, rows = plan_of(record), {row["name"]: row["runs"] for row in record["rows"]}
        pairs = [tuple(Contestant(name=name, words=()) for name in pair) for pair in combinations(rows, 2)]
        for metric in (main, "linear_top1"):
            how = "" if metric == main else f" by {metric}"
            for contestants, alone in ((plan.contestants, ""), *((pair, " alone") for pair in pairs)):
                judged = replace(plan, contestants=contestants, metric=metric)
                claims = judge_comparison(judged, rows, {}, compared["searches"])
                found |= both_ways(claims, "name", "against", how + alone)
    return found


def both_ways(claims: list[dict[str, Any]], name: str, against: str, how: str = "") -> dict[str, Interval]:
    """{"A > B" and how it was judged: the interval of A - B}, and that of B - A."""
    known = [claim for claim in claims if claim["low"] is not None]
    ahead = {f"{own[name]} > {own[against]}{how}": (own["effect"], own["low"], own["high"]) for own in known}
    behind = {f"{own[against]} > {own[name]}{how}": (-own["effect"], -own["high"], -own["low"]) for own in known}
    return {pair: tuple(map(printed, ends)) for pair, ends in (ahead | behind).items()}


def printed(value: float | str) -> str:
    return f"{float(value):.1f}".replace("-0.0", "0.0")


@pytest.mark.slow
def test_every_interval_of_a_page_is_of_the_pair_that_is_named_behind_it():
    lines = list(stated())
    assert sum(len(found) for _, found, _ in lines) > 150
    wrong = [f"{place}: a comment for each of {found}" for place, found, named in lines if len(found) != len(named)]
    wrong += [
        f"{place}: {interval} is not {intervals(study).get(pair)} of {study}: {pair}"
        for place, found, named in lines
        for interval, (study, pair) in zip(found, named, strict=False)
        if tuple(map(printed, interval)) != intervals(study).get(pair)
    ]
    assert not wrong, "\n".join(wrong)
