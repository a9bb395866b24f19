"""A page of every kind of record is written: a template or a renderer that names a removed key fails here, not after
days of training."""

import copy
from typing import Any

import pytest
from tables.kept import study_records
from tables.page import html, write_pages

from contrastive.study.compare.outcome import judged_again
from contrastive.study.record import read_compared
from contrastive.study.render.files import write_pages as write_compared
from contrastive.study.render.page import verdict_html

charts = pytest.importorskip("contrastive.report.charts")


def committed(name: str) -> dict[str, Any]:
    record: dict[str, Any] = read_compared(study_records()[name]) or {}
    return record


def broken() -> dict[str, Any]:
    """A search with a point that failed, one with no point that could be trained, and a final run that broke down."""
    record = copy.deepcopy(committed("rivals"))
    own = record["comparison"]
    first, second, third = (contestant["name"] for contestant in own["plan"]["contestants"])
    own["searches"][first][0]["points"][3]["values"] = [None]
    for point in own["searches"][second][0]["points"]:
        point["values"] = [None]
    own["searches"][second][0]["chosen"] = None
    rows = {row["name"]: row for row in record["rows"]}
    rows[second]["runs"] = []
    run = rows[third]["runs"].pop()
    own["failed"][third] = 1
    folders = f"{first}/point=04/seed=1000", f"{third}/final/seed={run['seed']}"
    own["reasons"] = {f"search=1/{folder}": "the loss is nan" for folder in folders}
    own["judged"] = judged_again(record)
    return record


def over(n: int = 2) -> dict[str, Any]:
    """A comparison over so many data sets."""
    record = committed("over_datasets")
    return {**record, "datasets": dict(list(record["datasets"].items())[:n])}


RECORDS = {
    "a table": lambda: [committed("digits_tau_plus")],
    "a table with claims and groups": lambda: [committed("biased_digits_forms")],
    "a comparison with a search": lambda: [committed("fair_search_long")],
    "a comparison without a search": lambda: [committed("teachers_digits")],
    "a comparison over data sets": lambda: [over()],
    "failed points and runs": lambda: [broken()],
    "several files": lambda: [committed("push_long"), committed("teachers_digits"), over(1)],
}  # fmt: skip


@pytest.mark.parametrize("kind", RECORDS)
def test_a_page_of_every_kind_of_record_is_written(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(charts, "javascript", lambda: "")
    records = RECORDS[kind]()
    text = html(records)
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
