"""The page of tables: one file that needs no network, with tables, claims and charts that compile.

One of every kind of record is written: a template or a renderer that names a removed key fails here, not after days of
training.
"""

import copy
import html
import re
from pathlib import Path
from typing import Any

import pytest
from tables.kept import study_records, table_of
from tables.page import html as page
from tables.page import write_pages

from contrastive.study.compare.outcome import comparison_record
from contrastive.study.record import read_compared
from contrastive.study.render.files import write_pages as write_compared
from contrastive.study.render.page import verdict_html
from tests.gallery.pages import specs
from tests.study.made_up import contest_of, run_all

vl_convert = pytest.importorskip("vl_convert")
charts = pytest.importorskip("contrastive.report.charts")
PUBLISHED, SWEPT = "debiased_positive", "digits_tau_plus"  # with published curves, and with a grid
RECORDS = {name: table_of(study_records()[name]) for name in (PUBLISHED, SWEPT)}
pytestmark = pytest.mark.usefixtures("no_library")
library = charts.javascript.__wrapped__  # as it is bundled, not what was kept


@pytest.fixture
def record() -> dict[str, Any]:
    return copy.deepcopy(RECORDS[PUBLISHED])


def test_the_library_does_not_end_the_script_that_holds_it(monkeypatch):
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda snippet: "é </script>")
    assert library() == "é <\\/script>"


def values(spec: dict[str, Any], key: str) -> set[Any]:
    (values,) = spec["datasets"].values()
    return {value[key] for value in values}


def test_every_chart_compiles_and_shows_the_data(record):
    effects, curves = specs(page([record]))
    swept = specs(page([RECORDS[SWEPT]]))
    assert all(vl_convert.vegalite_to_vega(spec)["marks"] for spec in (effects, curves, *swept))
    assert values(effects, "verdict") == {"undecided"} and 1.16 in values(effects, "published_effect")
    assert values(curves, "origin") == {"ours", "published"}
    assert values(swept[1], "x") == {0.0, 0.01, 0.05, 0.1, 0.2}
    params = {param["name"]: param for param in curves["params"]}
    assert "kNN top-1 (%)" in params["metric"]["bind"]["labels"]
    assert params["axis"]["bind"]["options"] == ["epoch", "minutes"]


def test_page_is_one_file_that_loads_nothing(record, monkeypatch):
    monkeypatch.undo()
    text = page([record])
    assert not re.search(r"""(src|href)=["']?(https?:)?//|@import|url\(""", text.partition("<script>const")[0])
    assert text.count("<script src") == text.count("<link") == 0
    assert "window.vegaEmbed" in text
    assert len(text) < 1.5e6


def test_static_page_shows_the_same_without_a_script(record):
    text = page([record], static=True)
    assert not re.search(r"<script|<button|<select|javascript:|\son\w+=|id=.method", text)
    assert text.count("<svg") == 2
    points = [title for title in re.findall(r"<title>(.*?)</title>", text, re.DOTALL) if "origin: published" in title]
    assert points and all("mean: " in point and "method: " in point for point in points)


def test_text_of_a_table_cannot_become_markup(record):
    record["title"], record["note"] = "A < B & </script>", '"><script>alert(1)</script>'
    record["rows"][0]["name"], record["claims"] = "</script><b>", []
    text = page([record])
    assert "<h2>A &lt; B &amp; &lt;/script&gt;</h2>" in text
    assert "</script><b>" not in text and "<script>alert" not in text


def test_page_says_what_was_run_what_is_missing_and_what_holds(record):
    row = next(row for row in record["rows"] if row["runs"])
    removed = row["runs"].pop()["seed"]
    text = html.unescape(page([record]))
    for part in (
        "small preset, not the published setting", "41 runs ", "torch ", "better: ", "worse: ", "knn: cosine",
        '<td class="verdict undecided">undecided</td>', f"Not run, or broken down: {row['name']}, seed {removed}",
    ):  # fmt: skip
        assert part in text, part


def test_table_without_runs_has_a_section(record):
    for row in record["rows"]:
        row["runs"], row["published_curves"] = [], {}
    text = page([{**record, "environments": [], "protocols": []}])
    assert "none is finished" in text
    assert f"undecided: {len(record['claims'])}" in text
    assert specs(text) == []


def test_tables_of_several_data_sets_have_a_menu_of_them(record):
    assert ['id="dataset"' in page(shown) for shown in ([record], [record, RECORDS[SWEPT]])] == [False, True]


def committed(name: str) -> dict[str, Any]:
    record: dict[str, Any] = read_compared(study_records()[name]) or {}
    return record


def broken(folder: Path) -> dict[str, Any]:
    """A search with a point that failed, one with no point that could be trained, and a final run that broke down."""
    contest, made = contest_of(folder, "budget=4", "seeds=3", a=70.0, b=69.0, c=68.0)
    made.refused = {"a, point 2", "b, point", "final, c, seed 1102"}
    assert run_all(contest, made) == []
    return comparison_record(contest)


def over(n: int = 2) -> dict[str, Any]:
    """A comparison over so many data sets."""
    record = committed("over_datasets")
    return {**record, "datasets": dict(list(record["datasets"].items())[:n])}


KINDS = {
    "a table": lambda _: [committed("digits_tau_plus")],
    "a table with claims and groups": lambda _: [committed("biased_digits_forms")],
    "a comparison with a search": lambda _: [committed("fair_search_long")],
    "a comparison without a search": lambda _: [committed("teachers_digits")],
    "a comparison over data sets": lambda _: [over()],
    "failed points and runs": lambda folder: [broken(folder)],
    "several files": lambda _: [committed("push_long"), committed("teachers_digits"), over(1)],
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_of_every_kind_of_record_is_written(kind, tmp_path):
    records = KINDS[kind](tmp_path)
    text = page(records)
    assert all(record["title"].replace("&", "&amp;") in text for record in records)
    assert ("Best so far by points" in text) is ("Figures against each setting" in text)
    for record in records:
        is_compared = bool({"comparison", "datasets"}.intersection(record))
        assert record["title"] in (write_compared if is_compared else write_pages)(record, tmp_path / "t")
        if is_compared:
            shown, _, fold = verdict_html(record).partition("<details>")
            assert "effect in points [interval]" in shown.replace("<", ">").split(">")
            assert "mean difference" in fold
            assert ("<th>P</th>" in fold) is ("rows" in record)
