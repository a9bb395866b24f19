"""Charts of a table: figures over a setting of its grid."""

from typing import Any

import altair as alt

from contrastive.report.charts import Spec, finished, menu, panels, scale


def sweep_chart(entries: list[dict[str, Any]], methods: list[str], metrics: dict[str, str]) -> Spec:
    """Mean ± standard deviation over seeds against a swept setting, a panel for each of the other settings."""
    metric = menu("metric", "Show", metrics)
    shown = alt.selection_point(name="shown", fields=["method"], bind="legend")
    base = alt.Chart().encode(
        x=alt.X("x:O", title=entries[0]["setting"], axis=alt.Axis(labelAngle=0)),
        y=alt.Y("mean:Q", title=None, scale=alt.Scale(zero=False)),
        color=alt.Color("method:N", scale=scale(methods)),
        opacity=alt.condition(shown, alt.value(1), alt.value(0.07)),
    )
    tooltip = [
        "method:N", "at:N", "x:Q", alt.Tooltip("mean:Q", format=".2f"), alt.Tooltip("std:Q", format=".2f"),
        alt.Tooltip("n:Q", title="seeds"),
    ]  # fmt: skip
    layers = [
        base.mark_rule(aria=False).encode(y=alt.Y("low:Q", title=None, scale=alt.Scale(zero=False)), y2="high:Q"),
        base.mark_line(aria=False),
        base.mark_point(filled=True, size=50).encode(tooltip=tooltip),
    ]
    return finished(
        panels(layers, entries, "at")
        .add_params(metric, shown)
        .transform_filter("datum.metric == metric")
        .transform_calculate(low="datum.mean - datum.std", high="datum.mean + datum.std"),
        entries,
    )
