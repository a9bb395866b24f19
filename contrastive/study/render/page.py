"""The page of a comparison, on one data set or over several, and its verdicts alone, as a notebook shows them."""

from dataclasses import replace
from types import ModuleType
from typing import Any

from contrastive.report.facts import facts
from contrastive.report.grid import Grid
from contrastive.report.page import Record, document, section
from contrastive.report.templates.fill import chart_module, filled
from contrastive.run.figures import VERDICTS
from contrastive.study.render import comparison, effects
from contrastive.study.render.search import points_so_far, values_of
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
        "ticks": comparison.TICKS,
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
