"""A record of somebody else is read once, whole, or refused in a sentence: no change to it ends in a traceback."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
from tables.kept import check_tables, study_records
from tables.page import html, write_pages

from contrastive.errors import ConfigError
from contrastive.study.record import read_compared
from contrastive.study.render.files import check_folder
from contrastive.study.render.files import write_pages as write_compared
from tests.helpers import further

charts = pytest.importorskip("contrastive.report.charts")
VALUES: list[Any] = [
    None, "", "x", -1, 10**400, 0, [], {}, [[]], True, "1e999", float("nan"), float("inf"), 1e308, "<b>",
]  # fmt: skip


def small(name: str) -> dict[str, Any]:
    """A committed record with few points of each curve, so that most changes hit something else."""
    record: dict[str, Any] = read_compared(study_records()[name]) or {}
    if "datasets" in record:
        record["datasets"] = dict(list(record["datasets"].items())[:2])
        for part in record["datasets"].values():
            part["rows"] = [{**row, "runs": [{**run, "curves": {}} for run in row["runs"]]} for row in part["rows"]]
        return record
    for row in record["rows"]:
        row["runs"] = [{**run, "curves": dict(list(run["curves"].items())[:1])} for run in row["runs"]]
    return record


def places(node: Any) -> list[tuple[Any, Any]]:
    """(container, key) of everything in a record."""
    items = list(node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ())
    return [(node, key) for key, _ in items] + [place for _, value in items for place in places(value)]


def damaged(record: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    changed = copy.deepcopy(record)
    container, key = rng.choice(places(changed))
    if rng.random() < 0.3:
        del container[key]
    else:
        container[key] = rng.choice(VALUES)
    return changed


@pytest.mark.parametrize(("name", "n", "first"), [
    ("teachers_digits", 8, 0),
    *further(*((name, 150, first) for first in (1, 2)
               for name in ("teachers_digits", "rivals", "over_datasets", "fair_search_long", "digits_tail"))),
])  # fmt: skip
def test_a_record_that_was_changed_is_refused_or_shown(
    name: str, n: int, first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charts, "javascript", lambda: "")
    rng, record = random.Random(first), small(name)
    for _ in range(n):
        path = tmp_path / "t.json"
        path.write_text(json.dumps(damaged(record, rng)))
        try:
            if (read := read_compared(path)) is None:
                continue
            is_compared = bool({"comparison", "datasets"}.intersection(read))
            (write_compared if is_compared else write_pages)(read, tmp_path / "pages" / "t")
            assert not {"NaN", "Infinity"} & set(html([read]).replace(",", " ").split())
            check_folder(path)
            check_tables([path])
        except ConfigError:
            continue
