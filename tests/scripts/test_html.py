"""The page of tables: one file that needs no network, with tables, claims and charts that compile."""

import copy
import html
import re
from typing import Any

import pytest
from tables.page import html as page

from tests.gallery.pages import specs

vl_convert = pytest.importorskip("vl_convert")
charts = pytest.importorskip("contrastive.report.charts")
ENVIRONMENT = {
    "commit": "0123456789abcdef", "dirty": False, "device": "CPU X", "precision": "fp32", "threads": 1,
    "python": "3.11", "torch": "2.15",
}  # fmt: skip


def run(seed: int, knn: float) -> dict[str, Any]:
    return {
        "seed": seed, "environment": 0, "protocol": 0, "data": "d", "date": "2026-01-02", "minutes": 1.0,
        "settings": {"epochs": "2"}, "test": {"knn_top1": knn}, "val": {}, "audit": {},
        "curves": {"test/knn_top1": {"epoch": [0, 1, 2], "value": [1.0, 2.0, knn]}},
    }  # fmt: skip


def row(method: str, tau: float, base: float) -> dict[str, Any]:
    accuracies = [base, base + 1, base + 2] if method == "A" else [base, base + 1.01, base + 1.99]
    return {
        "name": f"{method}, tau {tau}", "point": f"tau {tau}", "overrides": [f"loss={method}", "epochs=2"],
        "source": "P", "published": {"knn_top1": str(base + 2)},
        "runs": [run(seed, value) for seed, value in enumerate(accuracies)],
        "published_curves": {"test/knn_top1": {"epoch": [1, 2], "value": [3.0, 4.0]}},
    }  # fmt: skip


@pytest.fixture
def record() -> dict[str, Any]:
    rows = [row(method, tau, base) for tau in (0.1, 0.2, 0.3) for method, base in (("A", 20.0), ("B", 10.0))]
    claims = [
        {"better": f"A, tau {tau}", "worse": f"B, tau {tau}", "metric": "knn_top1", "gap": 0.0, "source": "P"}
        for tau in (0.1, 0.2)
    ]
    return {
        "table": "t", "preset": "small", "title": "A < B & </script>", "note": "Note.", "extra": [],
        "metrics": {"knn_top1": "kNN"}, "claims": claims, "rows": rows, "environments": [ENVIRONMENT],
        "protocols": [{"knn": "cosine"}],
    }  # fmt: skip


library = charts.javascript


def test_the_library_does_not_end_the_script_that_holds_it(monkeypatch):
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda snippet: "é </script>")
    assert library() == "é <\\/script>"


@pytest.fixture(autouse=True)
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The charting library takes seconds to bundle: one test alone has it."""
    monkeypatch.setattr(charts, "javascript", lambda: "")


def values(spec: dict[str, Any]) -> list[dict[str, Any]]:
    (values,) = spec["datasets"].values()
    return values


def test_every_chart_compiles_and_shows_the_data(record):
    effects, sweep, curves = specs(page([record]))
    for spec in (effects, sweep, curves):
        assert vl_convert.vegalite_to_vega(spec)["marks"]
    assert [value["verdict"] for value in values(effects)] == ["better", "better"]
    assert {value["x"] for value in values(sweep)} == {0.1, 0.2, 0.3}
    assert {value["origin"] for value in values(curves)} == {"ours", "published"}
    assert {value["setting"] for value in values(curves)} == {"tau 0.1", "tau 0.2", "tau 0.3"}
    params = {param["name"]: param for param in curves["params"]}
    assert params["metric"]["bind"]["labels"] == ["kNN top-1 (%)"]
    assert params["axis"]["bind"]["options"] == ["epoch", "minutes"]


def test_page_is_one_file_that_loads_nothing(record, monkeypatch):
    monkeypatch.undo()
    text = page([record])
    own = text.partition("<script>const")[0]
    assert not re.search(r"""(src|href)=["']?(https?:)?//|@import|url\(""", own)
    assert text.count("<script src") == text.count("<link") == 0
    assert "window.vegaEmbed" in text
    assert len(text) < 1.5e6


def test_static_page_shows_the_same_without_a_script(record):
    text = page([record], static=True)
    assert not re.search(r"<script|<button|<select|javascript:|\son\w+=|id=.method", text)
    assert text.count("<svg") == 3
    points = [title for title in re.findall(r"<title>(.*?)</title>", text, re.DOTALL) if "origin: published" in title]
    assert points and all("mean: " in point and "method: " in point for point in points)
    assert "effect: 10" in text
    assert "Show kNN top-1 (%) against epochs" in text


def test_text_of_a_table_cannot_become_markup(record):
    assert "<h2>A &lt; B &amp; &lt;/script&gt;</h2>" in page([record])
    record["rows"][0]["name"] = "</script><b>"
    text = page([{**record, "claims": [], "note": '"><script>alert(1)</script>'}])
    assert "</script><b>" not in text and "<script>alert" not in text


def test_page_says_what_was_run_what_is_missing_and_what_holds(record):
    removed = record["rows"][-1]["runs"].pop()["seed"]
    text = page([record])
    for part in (
        "small preset, not the published setting", "17 runs on 2026-01-02, 17.0 minutes in all",
        "CPU X (1 thread, fp32), Python 3.11, torch 2.15, commit 0123456789ab", "better: 2", "worse: 0",
        "+10.00 [+9.98, +10.02]", "In every row: epochs=2", "knn: cosine", '<td class="verdict better">better</td>',
        f"Not run: {record['rows'][-1]['name']}, seed {removed}",
    ):  # fmt: skip
        assert part in html.unescape(text), part


def test_table_without_runs_has_a_section(record):
    rows = [{**row, "runs": [], "published_curves": {}} for row in record["rows"]]
    text = page([{**record, "rows": rows, "environments": [], "protocols": []}])
    assert "none is finished" in text
    assert "undecided: 2" in text
    assert specs(text) == []


def test_tables_of_several_data_sets_have_a_menu_of_them(record):
    other = copy.deepcopy(record)
    for run in (run for row in other["rows"] for run in row["runs"]):
        run["settings"]["dataset"] = "digits size=16"
    assert ['id="dataset"' in page(shown) for shown in ([record], [record, other])] == [False, True]
