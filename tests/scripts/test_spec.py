"""The tables' YAML: grids, presets, quoted rows, claims, what is refused."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tables.claims import published_number
from tables.due import runs_of
from tables.spec import Table, read_table, table_paths

from contrastive.errors import ConfigError
from contrastive.study.jobs import merge_overrides

SPEC = """
title: T
seeds: [0, 1]
metrics: {knn_top1: kNN, audit.reported.accuracy: reported}
minutes: 12
common: [epochs=80, batch_size=32]
grid: {dataset.rho: [0.999, 0.99]}
rows:
  - name: A
    overrides: [loss=supcon, batch_size=64]
    published: {knn_top1: [11.8 ± 0.7, 90.8]}
    source: [P, Q]
    zip: {regularizer.weight: [1, 5]}
    presets: {smoke: [optimizer.lr=0.1]}
  - {name: B, overrides: [loss=cross_entropy], published: {knn_top1: [null, 3]}, minutes: 5, presets: {small: null}}
  - {name: C, grid: {tau_plus: [0.1, 0.2], n_views: [2, 3]}, overrides: [loss=debiased_pos]}
  - {name: Quoted, grid: {}, published: {knn_top1: 22.7}}
presets:
  small: {overrides: [epochs=5], grid: {dataset.rho: [0.99], n_views: [3]}}
  smoke: {overrides: [epochs=1], drop: [dataset.rho], seeds: [7], points: 1}
"""


@pytest.fixture
def table_file(tmp_path: Path) -> Path:
    (tmp_path / "t.yaml").write_text(SPEC)
    return tmp_path / "t.yaml"


def changed(path: Path, **values: Any) -> Path:
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **values}))
    return path


def test_rows_of_the_tables_grid_stand_together_at_each_point(table_file, tmp_path):
    table = read_table(table_file)
    assert [row.name for row in table.rows] == [
        "A, rho 0.999", "B, rho 0.999", "A, rho 0.99", "B, rho 0.99",
        "C, tau_plus 0.1, n_views 2", "C, tau_plus 0.1, n_views 3",
        "C, tau_plus 0.2, n_views 2", "C, tau_plus 0.2, n_views 3", "Quoted",
    ]  # fmt: skip
    first, _, third, fourth = table.rows[:4]
    assert first.overrides == ("epochs=80", "batch_size=64", "loss=supcon", "dataset.rho=0.999", "regularizer.weight=1")
    assert (first.published, first.source, first.minutes) == ({"knn_top1": "11.8 ± 0.7"}, "P", 12)
    assert (third.published, third.source) == ({"knn_top1": "90.8"}, "Q")
    assert third.overrides[-1] == "regularizer.weight=5"
    assert (table.rows[1].published, fourth.published, fourth.minutes) == ({}, {"knn_top1": "3"}, 5)
    runs = runs_of(table, tmp_path)
    assert len(runs) == 8 * 2 and "Quoted" not in {run.row for run in runs}  # which is never run


def test_a_preset_names_the_values_of_a_grid_and_leaves_rows_out(table_file):
    table = read_table(table_file, preset="small")
    names = ["A, rho 0.99", "C, tau_plus 0.1, n_views 3", "C, tau_plus 0.2, n_views 3", "Quoted"]
    assert [row.name for row in table.rows] == names
    assert table.rows[0].published == {"knn_top1": "90.8"}
    assert (table.seeds, "epochs=5" in table.rows[0].overrides) == ((0, 1), True)


def test_a_preset_replaces_drops_and_limits(table_file):
    table = read_table(table_file, preset="smoke")
    assert [row.name for row in table.rows] == ["A, rho 0.999", "B, rho 0.999", "C, tau_plus 0.1, n_views 2", "Quoted"]
    own = ("epochs=1", "batch_size=64", "loss=supcon", "regularizer.weight=1", "optimizer.lr=0.1")
    assert table.rows[0].overrides == own
    assert (table.seeds, table.folder, table.rows[0].minutes) == ((7,), "t-smoke", None)


def test_cli_overrides_win_and_change_the_folder(table_file):
    with pytest.raises(ConfigError, match="--seeds must be at least 1, got 0: try --seeds 3"):
        read_table(table_file, n_seeds=0)
    table = read_table(table_file, preset="small", n_seeds=3, extra=("epochs=9", "device=cpu", "reproducible=false"))
    assert "epochs=9" in table.rows[0].overrides
    assert "epochs=5" not in table.rows[0].overrides
    assert table.seeds == (0, 1, 2)
    assert table.folder.startswith("t-small-")
    assert table.changes == ["epochs=9"]
    assert read_table(table_file, extra=("device=cpu",)).folder == "t"


TWICE = [{"name": f"a {sign} b", "overrides": ["seed=1"]} for sign in "<>"]


def claim(better: str, worse: str, **values: Any) -> dict[str, Any]:
    return {"better": better, "worse": worse, "metric": "knn_top1", "source": "us", **values}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"row": []}, "unknown key row: try one of"),
        ({"metrics": "knn_top1"}, "metrics is missing or of another kind: try as in docs/tables.md"),
        ({"rows": [{"name": "A", "override": []}]}, "row A has an unknown key override"),
        ({"rows": [{"name": "A", "published": {"x": [1, 2, 3]}}]}, "A: published.x has 3 values for 2 points"),
        ({"presets": {"smoke": {"grid": {"n_views": [5]}}}}, "n_views has no value 5: try one of"),
        ({"presets": {}}, "has no preset smoke: try one of paper"),
        ({"rows": TWICE}, "two rows of t have the folder a-b"),
        ({"claims": [claim("A", "Z")]}, "names the row Z: try one of A, rho 0.999; "),
        ({"claims": [claim("A", "C")]}, "share no point: try their names with the point"),
        ({"claims": [claim("A", "B", metric="knn")]}, "names the metric knn: try one of "),
        ({"claims": [{"better": "A", "worse": "B", "metric": "knn_top1"}]}, "lacks source: try source"),
    ],
)
def test_mistakes_in_a_table_are_refused(table_file, values, message):
    with pytest.raises(ConfigError, match=message):
        read_table(changed(table_file, **values), preset="smoke")


def test_overrides_are_merged():
    assert merge_overrides(["a=1", "+b=2"], ["a=3"], ["b=4"]) == ("a=3", "b=4")  # the last for a key stays
    chosen = ["evaluator=[knn,mine]"]  # settings of evaluators left out go with them
    assert merge_overrides(["evaluator.knn.k=5", "evaluator.linear.l2=[1]"], chosen) == ("evaluator.knn.k=5", *chosen)


@pytest.mark.parametrize(
    ("better", "worse", "preset", "pairs"),
    [
        ("A", "B", "paper", [("A, rho 0.999", "B, rho 0.999"), ("A, rho 0.99", "B, rho 0.99")]),
        ("A, rho 0.99", "D", "paper", [("A, rho 0.99", "D")]),
        ("A", "D", "paper", [("A, rho 0.999", "D"), ("A, rho 0.99", "D")]),
        ("A", "B", "smoke", [("A, rho 0.999", "B, rho 0.999")]),  # of its rows alone
        ("A, rho 0.99", "D", "smoke", []),
    ],
)
def test_a_claim_holds_at_every_point_that_both_rows_have(table_file, better, worse, preset, pairs):
    rows = [*yaml.safe_load(SPEC)["rows"], {"name": "D", "grid": {}, "overrides": ["loss=d"]}]
    table = read_table(changed(table_file, rows=rows, claims=[claim(better, worse)]), preset=preset)
    assert [(one["better"], one["worse"]) for one in table.claims] == pairs


PAPER = re.compile(r"\b(19|20)\d\d\b|README")
MARK = re.compile(r"contradicted at (\w+) ([\w., -]+)")


def misattributed(table: Table) -> list[str]:
    """Claims with a paper as their source whose rows' published figures say the opposite at a point that the source
    does not name as `contradicted at KEY VALUE, VALUE`, and marks of points where they do not.

    The figures are those of the claim's metric or, if a row has none of it, of every metric that both rows have.
    """
    rows = {row.name: row for row in table.rows}
    wrong = []
    for one in table.claims:
        better, worse = rows[one["better"]], rows[one["worse"]]
        common = better.published.keys() & worse.published.keys()
        effects = [
            published_number(better.published[metric]) - published_number(worse.published[metric])
            for metric in ({one["metric"]} & common or common)
        ]
        marked = {f"{key} {value}" for key, values in MARK.findall(one["source"]) for value in values.split(", ")}
        is_marked = bool(marked & {better.point, worse.point})
        is_of_a_paper = not one["source"].startswith("our ") and bool(PAPER.search(one["source"]))
        if (min(effects, default=0.0) < 0 and is_of_a_paper) != is_marked:
            wrong.append(f"{one['better']} > {one['worse']}: {one['source']}")
    return wrong


@pytest.mark.parametrize("path", table_paths().values(), ids=table_paths().keys())
def test_no_paper_is_said_to_claim_what_its_figures_deny(path):
    assert misattributed(read_table(path)) == []
