"""The page's charts in Altair (https://altair-viz.github.io), whose menus and legends need no script of ours."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import altair as alt
import vl_convert

from contrastive.report.curves import Series, colors_of, label

Spec = dict[str, Any]  # of Vega-Lite
CONFIG: Spec = {
    "font": "system-ui, sans-serif",
    "background": "transparent",  # the page has one, light or dark
    "view": {"stroke": None},
    "axis": {"gridColor": "#e8e8e8", "domainColor": "#999", "tickColor": "#999", "labelColor": "#444"},
    "legend": {
        "orient": "bottom",
        "columns": 4,
        "title": None,
        "labelLimit": 400,
        "symbolOpacity": 1,
        "labelFontSize": 12,
        "columnPadding": 18,
    },
    "header": {
        "title": None,
        "labelFontWeight": "bold",
        "labelFontSize": 12,
        "labelLimit": 300,
        "labelAnchor": "start",
    },
}
MAX_BANDS = 10  # of methods at once
N_COLUMNS = 3  # of panels side by side, fewer on a narrow screen
PANEL_WIDTH, HEIGHT, WIDE = 290, 200, 900  # pixels of a panel, and the width of a chart on its own
ROWS = alt.NamedData("rows")  # of every chart: Altair would copy and check each number of them several times
POINT = re.compile(r'<path aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="point"([^>]*)/>')


def curves_chart(series: list[Series], methods: list[str], keys: list[str]) -> Spec:
    """Mean ± standard deviation over seeds against epoch or minutes, a panel for each setting; dashed: published."""
    values = [
        {"method": s.method, "setting": s.setting or "plain", "key": s.key, "n": s.n, "pace": s.minutes_per_epoch,
         "origin": "published" if s.published else "ours", "epoch": s.epoch, "mean": s.mean, "std": s.std}
        for s in series
    ]  # fmt: skip
    metric = menu("metric", "Show", {key: label(key) for key in keys})
    axis = menu("axis", "against", {"epoch": "epochs", "minutes": "minutes of the run"})
    shown = alt.selection_point(name="shown", fields=["method"], bind="legend")
    base = alt.Chart().encode(
        x=alt.X("x:Q", title=None, scale=alt.Scale(nice=False), axis=alt.Axis(tickCount=6, tickMinStep=1)),
        y=alt.Y("mean:Q", title=None, scale=alt.Scale(zero=False)),
        color=alt.Color("method:N", scale=scale(methods)),
        opacity=alt.condition(shown, alt.value(1), alt.value(0.07)),
    )
    dash = alt.StrokeDash(
        "origin:N", legend=None, scale=alt.Scale(domain=["ours", "published"], range=[[1, 0], [5, 4]])
    )
    tooltip = [
        "method:N", "origin:N", alt.Tooltip("epoch:Q", format=".3~f"), alt.Tooltip("minutes:Q", format=".2f"),
        alt.Tooltip("mean:Q", format=".4~g"), alt.Tooltip("std:Q", format=".2~g"), alt.Tooltip("n:Q", title="seeds"),
    ]  # fmt: skip
    band = base.mark_area(aria=False).transform_filter("datum.n > 1")
    # the bands of many methods would hide each other: they are drawn for those that are clicked
    faint = alt.condition(shown, alt.value(0.15), alt.value(0), empty=len(methods) <= MAX_BANDS)
    layers = [
        band.encode(y=alt.Y("low:Q", title=None, scale=alt.Scale(zero=False)), y2="high:Q", opacity=faint),
        base.mark_line(aria=False).encode(strokeDash=dash),
        base.mark_point(filled=True, size=28).encode(tooltip=tooltip),
    ]
    chart = panels(layers, values, "setting", own="x").add_params(metric, axis, shown)
    return finished(
        chart.transform_filter("datum.key == metric")
        .transform_flatten(["epoch", "mean", "std"])
        .transform_calculate(minutes="datum.pace === null ? null : datum.epoch * datum.pace")
        .transform_calculate(x="datum[axis]", low="datum.mean - datum.std", high="datum.mean + datum.std")
        .transform_filter("isValid(datum.x)"),
        values,
    )


def scale(names: Sequence[str]) -> alt.Scale:
    """The color of each method."""
    return alt.Scale(domain=list(names), range=list(colors_of(names).values()))


def menu(name: str, title: str, options: dict[str, str]) -> alt.Parameter:
    """A parameter that a menu of {value: text} sets, the first of them unless chosen."""
    choice = alt.binding_select(options=list(options), labels=list(options.values()), name=f"{title} ")
    return alt.param(name=name, value=next(iter(options)), bind=choice)


def panels(
    layers: list[alt.Chart], values: list[dict[str, Any]], field: str, *, own: str = ""
) -> alt.LayerChart | alt.FacetChart:
    """The layers once for each value of the field, side by side; their axis `own`, x or y, is not shared."""
    chart = alt.layer(*layers, data=ROWS)
    names = list(dict.fromkeys(value[field] for value in values))
    if len(names) < 2:
        return chart.properties(width="container", height=1.4 * HEIGHT)
    facet = alt.Facet(field=field, type="nominal", sort=names)
    facets = chart.properties(width=PANEL_WIDTH, height=HEIGHT).facet(facet, columns=min(N_COLUMNS, len(names)))
    scales: dict[str, Any] = {own: "independent"} if own else {}
    resolved: alt.FacetChart = facets.resolve_scale(**scales)
    return resolved


def finished(chart: alt.LayerChart | alt.FacetChart, values: list[dict[str, Any]]) -> Spec:
    """The chart with its data as JSON."""
    spec: Spec = chart.configure(**CONFIG).to_dict()
    return {**spec, "datasets": {ROWS.name: values}}


def svg(spec: Spec) -> str:
    """The chart drawn now, with the first choice of each menu; a point's tooltip is its `title` element."""
    drawn: str = vl_convert.vegalite_to_svg({**spec, **({"width": WIDE} if "width" in spec else {})})
    return POINT.sub(r"<path\2><title>\1</title></path>", drawn)


@cache
def javascript() -> str:
    """The JavaScript that draws charts: Vega, Vega-Lite and Vega-Embed. To bundle it takes two seconds, once."""
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle.replace("</script", "<\\/script")
