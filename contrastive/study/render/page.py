"""The page of a comparison: how far its search is while it runs, at the end its verdicts, on one data set or over
several; and the verdicts alone, as a notebook shows them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from types import ModuleType
from typing import Any

from contrastive.report.facts import facts
from contrastive.report.grid import Grid
from contrastive.report.page import Record, chart_module, document, filled, section
from contrastive.run.figures import VERDICTS
from contrastive.study.compare.contest import Contest, Method, n_left, searched
from contrastive.study.compare.outcome import METRICS
from contrastive.study.compare.search import n_points
from contrastive.study.render import comparison, effects
from contrastive.study.render.sentences import sentences


def page(record: Record) -> str:
    """The whole document of a comparison; over data sets the comparison on each follows the verdicts over all.

    Raises:
        ConfigError: a package that draws it is not installed.
    """
    charts = chart_module()
    if "datasets" not in record:
        return document([compared_section(record, charts)], charts)
    sections = [compared_section(part, charts) for part in record["datasets"].values()]
    return document(sections, charts, over=[verdict_section(record)])


def verdict_html(record: Record) -> str:
    """The sentences, forest and effects of a comparison, on one data set or over several: a part of a document.

    Raises:
        ConfigError: a package that draws it is not installed.
    """
    return filled("verdict.html", charts=chart_module(), static=True, own=verdict_section(record), verdicts=VERDICTS)


def verdict_section(record: Record) -> dict[str, Any]:
    """What the template shows of the verdicts of a comparison, on one data set or over several."""
    from contrastive.study.render.charts import claims_chart  # late: it needs Altair

    over = "datasets" in record
    claims = [] if over else effects.forest_claims(record)
    columns = effects.effects(record).columns
    n_open = len(columns) if over else len(effects.HEAD) + 1  # the others need the legend
    effect = replace(columns[n_open - 1], head="effect in points [interval]")
    return {
        "title": record["title"],
        "sentences": sentences(record),
        "forest": claims_chart(claims) if claims else None,
        "ticks": "each search, or seed",
        "effects": Grid([*columns[: n_open - 1], effect]),
        "numbers": Grid([*columns[:2], *columns[n_open:]]),
        "legend": comparison.LEGEND_OVER if over else comparison.legend(record),
        "images": [] if over else effects.alone_right(record),
        "notes": comparison.notes(record),
        "protocol": "" if over else comparison.protocol_text(record),
        "command": comparison.command(record),
    }


def compared_section(record: Record, charts: ModuleType) -> dict[str, Any]:
    """What the template shows of a comparison on one data set."""
    from contrastive.study.render.charts import knob_chart, so_far_chart  # late: they need Altair

    methods = [own["name"] for own in record["comparison"]["plan"]["contestants"]]
    points = comparison.knob_points(record)
    knobs = list(dict.fromkeys(point["knob"] for point in points))
    best, budget = points_so_far(values_of(record)), record["comparison"]["plan"]["budget"]
    shown = {
        **verdict_section(record),
        "chosen": comparison.chosen(record),
        "best": so_far_chart(best, methods, budget) if budget > 1 else None,
        "knobs": [knob_chart([p for p in points if p["knob"] == knob], methods) for knob in knobs],
    }
    return {
        **section(record, charts),
        "facts": facts(record, searched=comparison.minutes_of_search(record)),
        "comparison": shown,
    }


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
