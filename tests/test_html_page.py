"""The page: one file that needs no network, with tables, claims and charts that compile."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from contrastive.report.__main__ import main
from contrastive.report.sources import Source
from contrastive.report.web.charts import scatter_chart
from contrastive.report.web.page_command import page
from contrastive.report.web.sections import section
from contrastive.tables.page import as_json
from contrastive.tables.record import N_BINS

vl_convert = pytest.importorskip("vl_convert")
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
    return {
        "name": f"{method}, tau {tau}", "folder": "x", "point": f"tau {tau}",
        "overrides": [f"loss={method}", "epochs=2"], "source": "P",
        "published": {"knn_top1": str(base + 2)}, "runs": [run(seed, base + seed) for seed in range(3)],
        "similarities": {"positive_aligned": [100 / N_BINS] * N_BINS},
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
        "protocols": [{"knn": "cosine"}], "views": "aGVsbG8=",
    }  # fmt: skip


def specs(text: str) -> list[dict[str, Any]]:
    blocks = re.findall(r'<script type="application/json" id="[\w-]+">(.*?)</script>', text, re.DOTALL)
    return [json.loads(block) for block in blocks]


def test_every_chart_compiles_and_shows_the_data(record):
    maps = {"A": {"x": [0.0, 1.0], "y": [0.0, 1.0], "class": ["cat", "dog"], "bias": [0, 1]}}
    charts = specs(section(record, "t", maps))
    assert len(charts) == 1 + 1 + 3 + 6 + 2  # claims, sweep, curves, histograms, maps
    for spec in charts:
        assert vl_convert.vegalite_to_vega(spec)["marks"]
    claims, sweep, curves = charts[:3]
    assert [value["verdict"] for value in claims["data"]["values"]] == ["holds", "holds"]
    assert {value["x"] for value in sweep["data"]["values"]} == {0.1, 0.2, 0.3}
    assert {value["origin"] for value in curves["data"]["values"]} == {"ours", "published"}


def test_the_page_is_one_file_that_loads_nothing(record):
    text = page([Source(record, {})])
    assert not re.search(r"""(src|href)=["']?(https?:)?//|@import|url\(""", text.partition("<script>const")[0])
    assert text.count("<script src") == text.count("<link") == 0
    for part in ("window.vegaEmbed", "IntersectionObserver", "data:image/png;base64,aGVsbG8=", 'name="viewport"'):
        assert part in text
    assert len(text) < 1.5e6


def test_a_static_page_shows_the_same_without_a_script(record):
    text = page([Source(record, {})], static=True)
    assert not re.search(r"<script|<button|<select|javascript:|\son\w+=", text)
    assert text.count("<svg") == len(specs(page([Source(record, {})]))) == 11
    points = [title for title in re.findall(r"<title>(.*?)</title>", text, re.DOTALL) if "origin: published" in title]
    assert points and all("mean: " in point and "method: " in point for point in points)
    assert "effect: 10" in text
    assert ">Show kNN<" in text


def test_text_of_a_table_cannot_become_markup(record):
    text = section(record, "t", {})
    assert "<h2>A &lt; B &amp; &lt;/script&gt;</h2>" in text
    record["rows"][0]["name"] = "</script><b>"
    assert "</script><b>" not in section({**record, "claims": []}, "t", {})
    foreign = {**record, "claims": [], "views": '"><script>alert(1)</script>'}
    assert "<script>alert" not in section(foreign, "t", {})


def test_the_page_says_what_was_run_and_what_holds(record):
    text = section(record, "t", {})
    for part in (
        "small preset, not the published setting", "18 runs on 2026-01-02, 18.0 minutes in all",
        "CPU X (1 thread, fp32), Python 3.11, torch 2.15, commit 0123456789ab", "holds: 2", "does not hold: 0",
        "+10.00 [+10.00, +10.00]", "In every row: epochs=2", "knn: cosine",
    ):  # fmt: skip
        assert part in text, part


def test_a_table_without_runs_has_a_section(record):
    rows = [{**row, "runs": [], "similarities": {}, "published_curves": {}} for row in record["rows"]]
    text = section({**record, "rows": rows, "environments": [], "protocols": [], "views": None}, "t", {})
    assert "none is finished" in text
    assert "not run: 2" in text
    assert specs(text) == []


def test_a_map_is_colored_by_class_or_bias():
    points = {"x": [0.0, 1.0, 2.0], "y": [0.0, 1.0, 2.0], "class": ["a", "b", "a"]}
    spec = scatter_chart(points, "class")
    assert spec["encoding"]["color"]["scale"]["domain"] == ["a", "b"]
    assert {"field": "bias"} not in spec["encoding"]["tooltip"]


def test_the_command_writes_a_page_from_committed_json_alone(record, tmp_path, capsys):
    (tmp_path / "t.json").write_text(as_json(record))
    (tmp_path / "bench.json").write_text("[1]")
    out = tmp_path / "deep/index.html"
    assert main(["page", str(out), *map(str, sorted(tmp_path.glob("*.json")))]) == 0
    printed = capsys.readouterr()
    assert "1 table" in printed.out
    assert "bench.json holds no table and is left out" in printed.err
    assert len(specs(out.read_text())) == 11


def test_json_of_an_older_version_says_how_to_renew_it(record, tmp_path, capsys):
    del record["claims"]
    (tmp_path / "t.json").write_text(json.dumps(record))
    assert main(["page", str(tmp_path / "out.html"), str(tmp_path / "t.json")]) == 2
    assert "was written by an older version: try make reproduce-table TABLE=t" in capsys.readouterr().err


@pytest.mark.parametrize(("path", "message"), [("none", "does not exist: try"), (".", "no table or finished run in")])
def test_nothing_to_show_is_one_sentence(path: str, message: str, tmp_path: Path, capsys):
    assert main(["page", str(tmp_path / "out.html"), str(tmp_path / path)]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out.html").exists()
