"""How far a search is: the best held-out figure of each contestant so far, while it runs and in the page of its end."""

import time
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from contrastive.report.grid import Grid
from contrastive.report.templates.fill import chart_module, filled
from contrastive.study.compare.contest import Contest, Method, n_left, searched
from contrastive.study.compare.outcome import METRICS, Record
from contrastive.study.compare.search import n_points

# What the first run of each point of each search of a contestant was worth, None where it failed.
Values = Mapping[str, Sequence[Sequence[float | None]]]


def search_page(contest: Contest, now: str) -> str:
    """The page of a comparison while its runs are made.

    Args:
        now: what runs, and for how long.

    Raises:
        ConfigError: a package that draws it is not installed.
    """
    charts = chart_module()
    from contrastive.study.render.charts import so_far_chart  # late: it needs Altair

    plan, values = contest.plan, values_so_far(contest)
    return filled(
        "search.html",
        charts=charts,
        title=f"{' against '.join(values)} on {contest.dataset}",
        metric=METRICS.get(plan.metric, plan.metric),
        now=now,
        written=time.strftime("%Y-%m-%d %H:%M"),
        rows=table(contest, values).cells,
        best=so_far_chart(points_so_far(values), list(values), plan.budget),
    )


def values_so_far(contest: Contest) -> Values:
    """Those of the points that were tried."""

    def of_search(own: Method, search: int) -> list[float | None]:
        firsts = [one.values[0] for one in searched(contest, own, search).tried]
        return [None if value == -inf else round(value, 4) for value in firsts]

    return {own.name: [of_search(own, i) for i in range(contest.plan.searches)] for own in contest.methods}


def values_of(record: Record) -> Values:
    """Those of a record."""
    return {name: [[point["values"][0] for point in search["points"]] for search in searches]
            for name, searches in record["comparison"]["searches"].items()}  # fmt: skip


def table(contest: Contest, values: Values) -> Grid:
    """Of each contestant the points that were tried, the best of each search, and the runs that are left."""
    rows = [["contestant", "points", "best so far (%)", "runs left"]]
    for own in contest.methods:
        tried = [value for search in values[own.name] for value in search]
        n = contest.plan.searches * n_points(own.knobs, contest.plan.budget)
        failed = f", {tried.count(None)} failed" if None in tried else ""
        best = [max((value for value in search if value is not None), default=None) for search in values[own.name]]
        said = ", ".join("-" if value is None else f"{value:.2f}" for value in best)
        rows.append([own.name, f"{len(tried)} of {n}{failed}", said, str(n_left(contest, own))])
    return Grid.of(rows)


def points_so_far(values: Values) -> list[dict[str, Any]]:
    """{method, search, point, value, best: of the points so far} of every point; both None of one that failed."""
    found = []
    for name, searches in values.items():
        for i, search in enumerate(searches, start=1):
            best = -inf
            for point, value in enumerate(search, start=1):
                best = max(best, -inf if value is None else value)
                found.append({"method": name, "search": i, "point": point, "value": value,
                              "best": None if value is None else best})  # fmt: skip
    return found
