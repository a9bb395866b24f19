"""The parts of the page about one table, in the order in which they are read."""

from html import escape
from typing import Any

from contrastive.report.series import label, method_and_setting, read_series, read_sweeps
from contrastive.report.web import charts, curve_charts, html
from contrastive.tables.page import facts, grid, protocols, split
from contrastive.tables.spec import key_of
from contrastive.tables.verdicts import LEGEND, VERDICTS, claims_grid, judge_claims

Record = dict[str, Any]


def section(record: Record, id_: str, maps: dict[str, dict[str, Any]], *, static: bool = False) -> str:
    """A table with everything that belongs to it; `maps` are t-SNE maps of its rows.

    Args:
        static: one metric of the curves is all that can be shown.
    """
    preset = "" if record["preset"] == "paper" else f"{record['preset']} preset, not the published setting"
    terms = "".join(html.element("dt", term) + html.element("dd", text) for term, text in facts(record))
    return html.block(
        "section",
        html.element("h2", record["title"]),
        html.element("span", preset, class_="tag") if preset else "",
        html.element("p", record["note"], class_="note") if record["note"] else "",
        f"<dl>{terms}</dl>",
        html.element("h3", "Figures") + html.table(grid(record)),
        html.element(
            "p", f"{split(record)}, mean ± standard deviation (n seeds); accuracies in percent.", class_="note"
        ),
        claims(record, id_),
        sweeps(record, id_),
        curves(record, id_, only_test=static),
        views(record),
        similarities(record, id_),
        tsne(maps, id_),
        differences(record),
        protocol_list(record),
        id=id_,
    )


def claims(record: Record, id_: str) -> str:
    """How many claims hold, their table, and the effects as a chart."""
    judged = judge_claims(record)
    if not judged:
        return ""
    counts = {word: sum(claim["verdict"] == word for claim in judged) for word in VERDICTS}
    summary = [
        html.element("span", f"{word}: {n}", class_=f"verdict {word.replace(' ', '-')}")
        for word, n in counts.items()
        if n or word != "not run"
    ]
    has_published = any(claim["published_effect"] is not None for claim in judged)
    caption = f"Effect with its 95 % interval{'; a diamond is the published effect' if has_published else ''}"
    measured = [{**c, "metric": record["metrics"][c["metric"]]} for c in judged if c["effect"] is not None]
    return "\n".join([
        html.element("h3", "Claims"),
        html.block("div", *summary, class_="summary"),
        html.table(claims_grid(record)),
        html.element("p", LEGEND, class_="note"),
        html.chart(f"{id_}-claims", charts.claims_chart(measured), caption=caption) if measured else "",
    ])  # fmt: skip


def curves(record: Record, id_: str, *, only_test: bool = False) -> str:
    """Curves with controls, a chart for each setting that rows share; training losses say nothing about each other."""
    series = [s for s in read_series(record) if s.key.startswith("test/") or not only_test]
    keys = sorted(dict.fromkeys(s.key for s in series if len(s.epoch) > 2), key=lambda key: not key.startswith("test/"))
    if not keys:
        return ""
    methods, settings = methods_of(record), list(dict.fromkeys(s.setting for s in series))
    value_limits = curve_charts.limits(series)
    panels = [
        html.chart(
            f"{id_}-curves-{i}",
            curve_charts.curves_chart([s for s in series if s.setting == setting], methods, keys[0], value_limits),
            caption=setting or ("plain" if len(settings) > 1 else ""),
        )
        for i, setting in enumerate(settings)
    ]
    controls = [
        html.select("metric", "Show", {key: label(key) for key in keys}),
        html.select("axis", "against", {"epoch": "epochs", "minutes": "minutes of the run"}),
    ]
    dashed = " Dashed: published." if any(s.published for s in series) else ""
    return html.element("h3", "Curves") + html.block(
        "div",
        html.block("div", *controls, class_="controls"),
        html.legend(methods, buttons=True),
        html.block("div", *panels, class_="charts"),
        html.element("p", f"Mean over seeds, band ± standard deviation.{dashed}", class_="note"),
        class_="group",
    )


def sweeps(record: Record, id_: str) -> str:
    """Figures over each setting of the grid that has at least three values."""
    entries, methods = read_sweeps(record), methods_of(record)
    settings = list(dict.fromkeys(entry["setting"] for entry in entries))
    if not settings:
        return ""
    panels = [
        html.chart(
            f"{id_}-sweep-{i}",
            curve_charts.sweep_chart(
                [entry for entry in entries if entry["setting"] == setting], methods, entries[0]["metric"], setting
            ),
        )
        for i, setting in enumerate(settings)
    ]
    return html.element("h3", "Over a setting") + html.block(
        "div",
        html.block("div", html.select("metric", "Show", record["metrics"]), class_="controls"),
        html.legend(methods, buttons=True),
        html.block("div", *panels, class_="charts"),
        class_="group",
    )


def views(record: Record) -> str:
    """The views of the first run's first batch."""
    if not record["views"]:
        return ""
    source = f"data:image/png;base64,{escape(record['views'])}"
    picture = f'<img class="views" alt="augmented views of images" src="{source}">'
    return html.element("h3", "Views of the first batch") + picture


def similarities(record: Record, id_: str) -> str:
    """Histograms of cosine similarity by kind of pair, for each row on biased data."""
    rows = [row for row in record["rows"] if row["similarities"]]
    if not rows:
        return ""
    panels = [
        html.chart(f"{id_}-similarity-{i}", charts.histogram_chart(row["similarities"]), caption=row["name"])
        for i, row in enumerate(rows)
    ]
    kinds = [kind.replace("_", ", ") for kind in rows[0]["similarities"]]
    return "\n".join([
        html.element("h3", "Similarity by kind of pair"),
        html.legend(kinds, buttons=False),
        html.block("div", *panels, class_="charts"),
        html.element("p", "Features of test images, one run of each row. Aligned pairs share the bias.", class_="note"),
    ])  # fmt: skip


def tsne(maps: dict[str, dict[str, Any]], id_: str) -> str:
    """t-SNE maps, colored by class and by bias."""
    panels = [
        html.chart(f"{id_}-tsne-{i}-{field}", charts.scatter_chart(points, field), caption=f"{name}: {field}")
        for i, (name, points) in enumerate(maps.items())
        for field in ("class", "bias")
        if field in points
    ]
    return (
        html.element("h3", "t-SNE of test features") + html.block("div", *panels, class_="charts maps")
        if panels
        else ""
    )


def differences(record: Record) -> str:
    """The settings in which rows differ, as typed for train.py."""
    rows = [row for row in record["rows"] if row["overrides"]]
    common = set.intersection(*(set(row["overrides"]) for row in rows)) if rows else set()
    own = {row["name"]: {key_of(w): w for w in row["overrides"] if w not in common} for row in rows}
    keys = list(dict.fromkeys(key for words in own.values() for key in words))
    if not keys:
        return ""
    lines = [
        [name, *(words.get(key, "").partition("=")[2] or words.get(key, "") for key in keys)]
        for name, words in own.items()
    ]
    shared = f"In every row: {' '.join(sorted(common))}" if common else ""
    return html.block(
        "details",
        html.element("summary", "Settings that differ"),
        html.element("p", shared, class_="note") if shared else "",
        html.table([["method", *keys], *lines]),
    )


def protocol_list(record: Record) -> str:
    """How each figure is computed."""
    lines = [html.element("li", line.removeprefix("- ")) for line in protocols(record).splitlines()]
    return html.block("details", html.element("summary", "Protocols"), html.block("ul", *lines)) if lines else ""


def methods_of(record: Record) -> list[str]:
    """The methods of the rows that have runs or published curves, in order."""
    rows = [row for row in record["rows"] if row["runs"] or row["published_curves"]]
    return list(dict.fromkeys(method_and_setting(row, record)[0] for row in rows))
