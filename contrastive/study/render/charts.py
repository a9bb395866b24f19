"""Charts of verdicts: effects with their intervals, and what a search tried."""

from typing import Any

import altair as alt

from contrastive.report.charts import HEIGHT, ROWS, Spec, finished, scale

VERDICT_COLORS = {"better": "#009E73", "worse": "#D55E00", "equal": "#0072B2", "undecided": "#888888"}


def claims_chart(claims: list[dict[str, Any]]) -> Spec:
    """Effects with their intervals, a line each, its claim above it; a diamond is the published effect, ticks are the
    effects of `each` search."""
    several = len({claim["metric"] for claim in claims}) > 1
    values = [
        {"each": [], **claim, "claim": claim["claim"] + (f", {claim['metric']}" if several else ""), "order": i}
        for i, claim in enumerate(claims)
    ]
    names = ["claim", "metric", "effect", "low", "high", "n", "p", "gap", "verdict", "published_effect", "source"]
    base = alt.Chart().encode(y=alt.Y("order:O", axis=None), tooltip=[alt.Tooltip(field=name) for name in names])
    color = alt.Color(
        "verdict:N", legend=None, scale=alt.Scale(domain=list(VERDICT_COLORS), range=list(VERDICT_COLORS.values()))
    )

    ticks = alt.Axis(tickCount=8)

    def x(name: str) -> alt.X:
        return alt.X(field=name, type="quantitative", title="effect", scale=alt.Scale(padding=12), axis=ticks)

    layers = [
        alt.Chart().mark_rule(color="#999").encode(x=alt.XDatum(0)),
        base.mark_text(align="left", dy=-11, limit=alt.expr("width")).encode(x=alt.value(2), text="claim:N"),
        base.mark_rule(strokeWidth=3, yOffset=5).encode(x=x("low"), x2="high:Q", color=color),
        base.mark_point(filled=True, size=70, yOffset=5, opacity=1).encode(x=x("effect"), color=color),
        base.transform_flatten(["each"]).mark_tick(size=8, yOffset=12, color="#333").encode(x=x("each")),
        base.mark_point(shape="diamond", size=70, yOffset=5, color="#333").encode(x=x("published_effect")),
    ]
    return finished(alt.layer(*layers, data=ROWS).properties(width="container", height=alt.Step(36)), values)


def knob_chart(points: list[dict[str, Any]], methods: list[str]) -> Spec:
    """The figure on held-out images of every point of a search against one of its knobs."""
    knob = points[0]["knob"]
    kind = alt.Scale(type="log" if points[0]["log"] else "linear", nice=False)
    chart = alt.Chart(ROWS).mark_point(filled=True, size=40, opacity=0.8).encode(
        x=alt.X("x:Q", title=knob, scale=kind),
        y=alt.Y("value:Q", title="held-out images (%)", scale=alt.Scale(zero=False)),
        color=alt.Color("method:N", scale=scale(methods)),
        tooltip=["method:N", alt.Tooltip("x:Q", title=knob), alt.Tooltip("value:Q", format=".2f")],
    )  # fmt: skip
    return finished(chart.properties(width="container", height=HEIGHT), points)


def so_far_chart(points: list[dict[str, Any]], methods: list[str], budget: int) -> Spec:
    """The best figure on held-out images against the number of points, a line for each search with a gap where a point
    failed; a click on a name shows it alone."""
    shown = alt.selection_point(name="shown", fields=["method"], bind="legend")
    base = alt.Chart().encode(
        x=alt.X("point:Q", title="points", scale=alt.Scale(domain=[1, budget]), axis=alt.Axis(tickMinStep=1)),
        y=alt.Y("best:Q", title=None, scale=alt.Scale(zero=False)),
        color=alt.Color("method:N", scale=scale(methods)),
        detail="search:N",
        opacity=alt.condition(shown, alt.value(1), alt.value(0.07)),
    )
    tooltip = ["method:N", "search:N", "point:Q", *(alt.Tooltip(f"{key}:Q", format=".2f") for key in ("value", "best"))]
    layers = [
        base.mark_line(interpolate="step-after", aria=False),
        base.mark_point(filled=True, size=24).encode(tooltip=tooltip),
    ]
    chart = alt.layer(*layers, data=ROWS).add_params(shown)
    return finished(chart.properties(width="container", height=1.4 * HEIGHT), points)
