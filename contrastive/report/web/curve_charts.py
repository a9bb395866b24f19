"""Charts with controls above them that set the parameters `metric`, `axis` (epoch or minutes) and `shown` (methods)."""

from typing import Any

from contrastive.report.series import Series
from contrastive.report.web.charts import Spec, chart, colors


def limits(series: list[Series]) -> dict[str, list[float]]:
    """{metric: lowest and highest value with its band}, so that charts side by side share their axis."""
    values: dict[str, list[float]] = {}
    for s in series:
        for mean, std in zip(s.mean, s.std, strict=True):
            values.setdefault(s.key, []).extend((mean - std, mean + std))
    return {key: [min(both), max(both)] for key, both in values.items()}


def curves_chart(series: list[Series], methods: list[str], key: str, value_limits: dict[str, list[float]]) -> Spec:
    """Mean ± standard deviation over seeds against epoch or minutes; published curves are dashed."""
    values = [
        {"method": s.method, "key": s.key, "origin": "published" if s.published else "ours", "n": s.n,
         "pace": s.minutes_per_epoch, "epoch": s.epoch, "mean": s.mean, "std": s.std}
        for s in series
    ]  # fmt: skip
    x = {"field": "x", "type": "quantitative", "title": None, "scale": {"nice": False}, "axis": {"tickCount": 6}}
    ends = {name: {"expr": f"limits[metric][{i}]"} for i, name in enumerate(("domainMin", "domainMax"))}
    y = {"field": "mean", "type": "quantitative", "scale": {"zero": False, **ends}, "title": None}
    color = {"field": "method", "type": "nominal", "scale": colors(methods), "legend": None}
    dash = {"field": "origin", "scale": {"domain": ["ours", "published"], "range": [[1, 0], [5, 4]]}, "legend": None}
    line_of = {"color": color, "x": x, "y": y}
    tooltip = [
        {"field": "method"}, {"field": "origin"}, {"field": "epoch", "format": ".3~f"},
        {"field": "minutes", "format": ".2f"}, {"field": "mean", "format": ".4~g"},
        {"field": "std", "format": ".2~g"}, {"field": "n", "title": "seeds"},
    ]  # fmt: skip
    hover = {"name": "hover", "select": {"type": "point", "on": "pointerover", "nearest": True, "clear": "pointerout"}}
    shown_at = {"condition": {"param": "hover", "empty": False, "value": 1}, "value": 0}
    return chart(
        height=220,
        params=[
            {"name": "metric", "value": key},
            {"name": "limits", "value": value_limits},
            {"name": "axis", "value": "epoch"},
            {"name": "shown", "value": methods},
        ],
        data={"values": values},
        transform=[
            {"filter": "datum.key == metric && indexof(shown, datum.method) >= 0"},
            {"flatten": ["epoch", "mean", "std"]},
            {"calculate": "datum.pace === null ? null : datum.epoch * datum.pace", "as": "minutes"},
            {"calculate": "axis == 'epoch' ? datum.epoch : datum.minutes", "as": "x"},
            {"filter": "isValid(datum.x)"},
            {"calculate": "datum.mean - datum.std", "as": "low"},
            {"calculate": "datum.mean + datum.std", "as": "high"},
        ],
        layer=[
            {
                "transform": [{"filter": "datum.n > 1"}],
                "mark": {"type": "area", "opacity": 0.15},
                "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": color},
            },
            {
                "mark": {"type": "line", "strokeWidth": 2},
                "encoding": {**line_of, "strokeDash": dash, "detail": {"field": "origin"}},
            },
            {
                "params": [hover],
                "mark": {"type": "point", "filled": True, "size": 60},
                "encoding": {**line_of, "opacity": shown_at, "tooltip": tooltip},
            },
        ],
    )


def sweep_chart(entries: list[dict[str, Any]], methods: list[str], metric: str, title: str) -> Spec:
    """Mean ± standard deviation over seeds against a swept setting; a dash pattern for each of the other settings."""
    x = {"field": "x", "type": "ordinal", "title": title, "axis": {"labelAngle": 0}}
    y = {"field": "mean", "type": "quantitative", "scale": {"zero": False}, "title": None}
    color = {"field": "method", "type": "nominal", "scale": colors(methods), "legend": None}
    many = len({entry["at"] for entry in entries}) > 1
    same = {"x": x, "color": color, "detail": {"field": "at"}}
    tooltip = [
        {"field": "method"}, *([{"field": "at", "title": "with"}] if many else []), {"field": "x", "title": title},
        {"field": "mean", "format": ".2f"}, {"field": "std", "format": ".2f"}, {"field": "n", "title": "seeds"},
    ]  # fmt: skip
    return chart(
        height=240,
        params=[{"name": "metric", "value": metric}, {"name": "shown", "value": methods}],
        data={"values": entries},
        transform=[
            {"filter": "datum.metric == metric && indexof(shown, datum.method) >= 0"},
            {"calculate": "datum.mean - datum.std", "as": "low"},
            {"calculate": "datum.mean + datum.std", "as": "high"},
        ],
        layer=[
            {"mark": "rule", "encoding": {**same, "y": {**y, "field": "low"}, "y2": {"field": "high"}}},
            {"mark": "line", "encoding": {**same, "y": y, **({"strokeDash": {"field": "at"}} if many else {})}},
            {"mark": {"type": "point", "filled": True, "size": 60}, "encoding": {**same, "y": y, "tooltip": tooltip}},
        ],
    )
