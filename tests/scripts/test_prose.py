"""Every interval that a page states is one of a record: of its own study, or of one that it links."""

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
# a link to a study, or to its row in the archive, and the anchor of that row
LINKED = re.compile(r"([a-z_0-9]+)(?=/README\.md)|(?<=archive/README\.md#)([a-z_0-9]+)|(?<=<a id=\")([a-z_0-9]+)")
# What a model expects of more search, and choices without labels (tests/docs/test_label_free.py), are of no two rows.
OTHERS = re.compile(r"by its model|label_free/README")


def stated() -> Iterator[tuple[str, Interval, frozenset[str]]]:
    """(page:line, interval, records that may hold it): those linked in the line, else on the page, and the page's."""
    for page in PAGES:
        if page.parent.name == "label_free":
            continue
        text = page.read_text()
        own = {page.parent.name} & RECORDS.keys()
        for n, line in enumerate(text.split("\n"), 1):
            linked = records_of(line) or records_of(text)
            if not OTHERS.search(line):
                for interval in STATED.findall(line):
                    yield f"{page.relative_to(ROOT)}:{n}", interval, frozenset(own | linked)


def records_of(text: str) -> set[str]:
    return {match[0] for match in LINKED.finditer(text)} & RECORDS.keys()


@cache
def intervals(name: str) -> set[Interval]:
    """Those of all pairs of rows of a record by all its metrics; of a comparison also those of its plan."""
    record = read_compared(RECORDS[name]) or {}
    if "datasets" in record:
        over = both_ways(claims_of(record))
        return over.union(*(intervals_of(part) for part in record["datasets"].values()))
    return intervals_of(record)


def intervals_of(record: dict[str, Any]) -> set[Interval]:
    found = []
    for part in record_frame(record).sections.values():
        for metric in part.test_metrics():
            pairs = [{"better": a, "worse": b, "metric": metric, "gap": 0.0} for a, b in combinations(part.rows, 2)]
            found += judge(part, pairs)
    if "comparison" in record:
        plan = plan_of(record)
        rows = {row["name"]: row["runs"] for row in record["rows"]}
        pairs = [tuple(Contestant(name=name, words=()) for name in pair) for pair in combinations(rows, 2)]
        for metric in (plan.metric, "linear_top1"):
            for contestants in (plan.contestants, *pairs):
                judged = replace(plan, contestants=contestants, metric=metric)
                found += judge_comparison(judged, rows, {}, record["comparison"]["searches"])
    return both_ways(found)


def both_ways(found: list[dict[str, Any]]) -> set[Interval]:
    """The intervals of A - B and of B - A."""
    ends = [(claim["effect"], claim["low"], claim["high"]) for claim in found if claim["low"] is not None]
    both = ends + [(-effect, -high, -low) for effect, low, high in ends]
    return {tuple(printed(value) for value in one) for one in both}


def printed(value: float | str) -> str:
    return f"{float(value):.1f}".replace("-0.0", "0.0")


@pytest.mark.slow
def test_every_interval_of_a_page_is_of_a_record():
    places = list(stated())
    assert len(places) > 150
    wrong = [
        f"{place}: {interval}"
        for place, interval, names in places
        if tuple(map(printed, interval)) not in set().union(*map(intervals, names))
    ]
    assert not wrong
