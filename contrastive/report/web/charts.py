"""Vega-Lite specifications of the page's charts: https://vega.github.io/vega-lite/docs/"""

from collections.abc import Sequence
from typing import Any

from contrastive.report.series import COLORS
from contrastive.tables.verdicts import claim_text

Spec = dict[str, Any]
VERDICT_COLORS = {"holds": "#009E73", "does not hold": "#D55E00", "undecided": "#888888"}
CONFIG = {
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {"grid": True, "gridColor": "#e8e8e8", "domainColor": "#999", "tickColor": "#999", "labelColor": "#444"},
}


def chart(**parts: Any) -> Spec:
    """A chart as wide as its place on the page."""
    spec = {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "width": "container", "config": CONFIG}
    return {**spec, "autosize": {"type": "fit", "contains": "padding"}, **parts}


def colors(names: Sequence[str]) -> Spec:
    """A color for each name, the same in every chart of a table; the legend is the page's own."""
    return {"domain": list(names), "range": [COLORS[i % len(COLORS)] for i in range(len(names))]}


def claims_chart(claims: list[dict[str, Any]]) -> Spec:
    """Effects with their 95 % intervals, a line each, its claim above it; a diamond is the published effect."""
    several = len({claim["metric"] for claim in claims}) > 1
    values = [
        {**claim, "claim": claim_text(claim) + (f", {claim['metric']}" if several else ""), "order": i}
        for i, claim in enumerate(claims)
    ]
    y = {"field": "order", "type": "ordinal", "axis": None}
    x: Spec = {"field": "effect", "type": "quantitative", "title": "effect"}
    x |= {"axis": {"tickCount": 8}, "scale": {"padding": 12}}
    kinds = {"domain": list(VERDICT_COLORS), "range": list(VERDICT_COLORS.values())}
    color = {"field": "verdict", "type": "nominal", "scale": kinds, "legend": None}
    tooltip = [
        {"field": name}
        for name in (
            "claim",
            "metric",
            "effect",
            "low",
            "high",
            "n",
            "p",
            "gap",
            "verdict",
            "published_effect",
            "source",
        )
    ]
    both = {"x": x, "y": y, "color": color, "tooltip": tooltip}
    return chart(
        height={"step": 36},
        data={"values": values},
        layer=[
            {"mark": {"type": "rule", "color": "#999"}, "encoding": {"x": {"datum": 0}}},
            {"mark": {"type": "text", "align": "left", "dy": -11, "fontSize": 11, "limit": {"expr": "width"}},
             "encoding": {"x": {"value": 2}, "y": y, "text": {"field": "claim"}}},
            {"mark": {"type": "rule", "strokeWidth": 3, "yOffset": 5},
             "encoding": {**both, "x": {**x, "field": "low"}, "x2": {"field": "high"}}},
            {"mark": {"type": "point", "filled": True, "size": 70, "yOffset": 5, "opacity": 1}, "encoding": both},
            {"mark": {"type": "point", "shape": "diamond", "size": 70, "yOffset": 5, "color": "#333"},
             "encoding": {"x": {**x, "field": "published_effect"}, "y": y, "tooltip": tooltip}},
        ],
    )  # fmt: skip


def histogram_chart(histograms: dict[str, list[float]]) -> Spec:
    """Percent of the pairs of each kind over cosine similarity."""
    values = [{"kind": kind.replace("_", ", "), "share": shares} for kind, shares in histograms.items()]
    kinds = [kind.replace("_", ", ") for kind in histograms]
    return chart(
        height=170,
        data={"values": values},
        transform=[
            {"flatten": ["share"]},
            {"window": [{"op": "row_number", "as": "bin"}], "groupby": ["kind"]},
            {"calculate": f"2 * (datum.bin - 0.5) / {len(next(iter(histograms.values())))} - 1", "as": "similarity"},
        ],
        mark={"type": "area", "interpolate": "step", "opacity": 0.35, "line": {"strokeWidth": 1.5}},
        encoding={
            "x": {"field": "similarity", "type": "quantitative", "title": "cosine similarity"},
            "y": {"field": "share", "type": "quantitative", "stack": None, "title": "% of pairs"},
            "color": {"field": "kind", "type": "nominal", "scale": colors(kinds), "legend": None},
            "tooltip": [
                {"field": "kind"},
                {"field": "similarity", "format": ".3f"},
                {"field": "share", "format": ".2f"},
            ],
        },
    )


def scatter_chart(points: dict[str, Any], field: str) -> Spec:
    """A t-SNE map colored by `class` or `bias`."""
    names = sorted({str(name) for name in points[field]})
    values: list[Spec] = [{**points, field: [str(name) for name in points[field]]}]
    axis = {"type": "quantitative", "axis": None, "scale": {"zero": False}}
    return chart(
        height=300,
        data={"values": values},
        transform=[{"flatten": [name for name in ("x", "y", "class", "bias") if name in points]}],
        mark={"type": "circle", "size": 18, "opacity": 0.8},
        encoding={
            "x": {**axis, "field": "x"},
            "y": {**axis, "field": "y"},
            "color": {"field": field, "type": "nominal", "scale": colors(names), "legend": None},
            "tooltip": [{"field": name} for name in ("class", "bias") if name in points],
        },
    )
