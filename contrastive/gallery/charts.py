"""Charts of one run: the map of its features, which classes it takes for which, and its groups."""

from typing import Any

import altair as alt

from contrastive.report.charts import HEIGHT, ROWS, Spec, finished, menu, scale

MARK = 46  # area of a point of the map, in square pixels


def map_chart(points: list[dict[str, Any]], classes: list[str]) -> Spec:
    """Features in the plane, a point for each image, which is shown where one points.

    Args:
        points: {class, guess, image: a data URI, x, y}.
        classes: in their order.
    """
    shown = alt.selection_point(name="shown", fields=["class"], bind="legend")
    fields = [name for name in ("class", "guess", "bias", "image") if name in points[0]]  # vega shows an `image`
    axis = alt.Axis(labels=False, ticks=False, title=None)
    chart = alt.Chart(ROWS).mark_point(filled=True, size=MARK).encode(
        x=alt.X("x:Q", scale=alt.Scale(zero=False), axis=axis),
        y=alt.Y("y:Q", scale=alt.Scale(zero=False), axis=axis),
        color=alt.Color("class:N", scale=scale(classes)),
        opacity=alt.condition(shown, alt.value(0.85), alt.value(0.05)),
        tooltip=[alt.Tooltip(field=name, type="nominal") for name in fields],
    )  # fmt: skip
    return finished(chart.add_params(shown).properties(width="container", height=2.4 * HEIGHT), points)


def confusion_chart(cells: list[dict[str, Any]], names: list[str]) -> Spec:
    """Which class (row) is taken for which (column), in percent of the row.

    Args:
        cells: {class, guess, n, percent}, those of n = 0 left out.
        names: the classes in their order.
    """
    base = alt.Chart(ROWS).encode(
        x=alt.X("guess:N", sort=names, title="guess", scale=alt.Scale(domain=names), axis=alt.Axis(labelLimit=90)),
        y=alt.Y("class:N", sort=names, title="class", scale=alt.Scale(domain=names), axis=alt.Axis(labelLimit=120)),
        tooltip=["class:N", "guess:N", "n:Q", alt.Tooltip("percent:Q", format=".1f")],
    )
    color = alt.Color("percent:Q", legend=None, scale=alt.Scale(domain=[0, 100], range=["#f4f8fb", "#0072B2"]))
    layers = [base.mark_rect().encode(color=color)]
    if len(names) <= 12:  # of more the numbers would not fit
        ink = alt.condition("datum.percent > 55", alt.value("white"), alt.value("#222"))
        layers.append(base.mark_text(fontSize=11).encode(text="n:Q", color=ink))
    size = alt.Step(max(14, min(30, 600 // len(names))))
    return finished(alt.layer(*layers, data=ROWS).properties(width="container", height=size), cells)


def groups_chart(groups: list[dict[str, Any]]) -> Spec:
    """Accuracy of each group with its 95 % interval, the worst first, by one read-out at a time.

    Args:
        groups: {group, n, read_out, top1, low, high}.
    """
    read_outs = list(dict.fromkeys(own["read_out"] for own in groups))
    base = alt.Chart().encode(
        y=alt.Y("group:N", sort=alt.EncodingSortField("top1", op="min"), title=None, axis=alt.Axis(labelLimit=200)),
        tooltip=["group:N", "n:Q", *(alt.Tooltip(f"{key}:Q", format=".1f") for key in ("top1", "low", "high"))],
    )
    x = alt.X("top1:Q", title="% right", scale=alt.Scale(domain=[0, 100]))
    layers = [
        base.mark_bar(color="#56B4E9", height={"band": 0.6}).encode(x=x),
        base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title="% right"), x2="high:Q"),
    ]
    chart = alt.layer(*layers, data=ROWS).transform_filter("datum.read_out == read_out")
    which = menu("read_out", "by", dict(zip(read_outs, read_outs, strict=True)))
    return finished(chart.add_params(which).properties(width="container", height=alt.Step(20)), groups)
