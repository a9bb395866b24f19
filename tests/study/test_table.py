"""The tables' YAML: grids, presets, quoted rows, what is refused."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from contrastive.errors import ConfigError
from contrastive.study.jobs import runs_of
from contrastive.study.spec import look_up, merge_overrides, read_table

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
  - {name: B, overrides: [loss=cross_entropy], published: {knn_top1: [null, 3]}, minutes: 5}
  - {name: C, grid: {tau_plus: [0.1, 0.2], n_views: [2, 3]}, overrides: [loss=debiased_pos]}
  - {name: Quoted, grid: {}, published: {knn_top1: 22.7}}
presets:
  small: [epochs=5]
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
    assert table.metrics == {"knn_top1": "kNN", "audit.reported.accuracy": "reported"}
    assert table.rows[-1].overrides == ()
    runs = runs_of(table, tmp_path)
    assert len(runs) == 8 * 2
    assert not {row.name for row in table.rows if not row.overrides} & {run.row for run in runs}  # quoted, never run


def test_a_preset_names_the_values_of_a_grid_that_it_runs(table_file):
    presets = {"small": {"grid": {"dataset.rho": [0.99], "n_views": [3]}}}
    table = read_table(changed(table_file, presets=presets), preset="small")
    assert [row.name for row in table.rows] == [
        "A, rho 0.99", "B, rho 0.99", "C, n_views 3, tau_plus 0.1", "C, n_views 3, tau_plus 0.2", "Quoted",
    ]  # fmt: skip
    assert table.rows[0].published == {"knn_top1": "90.8"}


def test_a_grid_may_have_values_that_are_lists(table_file):
    rows = [{"name": "A", "overrides": ["schedule=step"], "grid": {"schedule.milestones": [[3, 6], [13, 26]]}}]
    table = read_table(changed(table_file, rows=rows, presets={}))
    assert [row.overrides[-1] for row in table.rows] == ["schedule.milestones=[3, 6]", "schedule.milestones=[13, 26]"]


@pytest.mark.parametrize("n", [0, -1])
def test_a_table_has_a_seed(table_file, n):
    with pytest.raises(ConfigError, match=rf"--seeds must be at least 1, got {n}: try --seeds 3"):
        read_table(table_file, n_seeds=n)


def test_a_row_is_left_out_of_a_preset(table_file):
    rows = yaml.safe_load(SPEC)["rows"]
    rows[0]["presets"] = {"small": None}
    table = read_table(changed(table_file, rows=rows), preset="small")
    assert [row.name for row in table.rows][:2] == ["B, rho 0.999", "B, rho 0.99"]
    assert len(read_table(table_file).rows) == len(table.rows) + 2


def test_a_preset_replaces_drops_and_limits(table_file):
    table = read_table(table_file, preset="smoke")
    assert [row.name for row in table.rows] == [
        "A, rho 0.999", "B, rho 0.999", "C, tau_plus 0.1, n_views 2", "Quoted",
    ]  # fmt: skip
    assert table.rows[0].overrides == (
        "epochs=1", "batch_size=64", "loss=supcon", "regularizer.weight=1", "optimizer.lr=0.1",
    )  # fmt: skip
    assert (table.seeds, table.folder, table.rows[0].minutes) == ((7,), "t-smoke", None)
    assert read_table(table_file, preset="small").seeds == (0, 1)
    assert "epochs=5" in read_table(table_file, preset="small").rows[0].overrides


def test_cli_overrides_win_and_change_the_folder(table_file):
    table = read_table(table_file, preset="small", n_seeds=3, extra=("epochs=9", "device=cpu"))
    assert "epochs=9" in table.rows[0].overrides
    assert "epochs=5" not in table.rows[0].overrides
    assert table.seeds == (0, 1, 2)
    assert table.folder.startswith("t-small-")
    assert table.changes == ["epochs=9"]
    assert read_table(table_file, extra=("device=cpu",)).folder == "t"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"row": []}, "unknown key row: try one of"),
        ({"seeds": 5}, "seeds is missing or of another kind: try as in docs/tables.md"),
        ({"title": None}, "title is missing or of another kind"),
        ({"metrics": "knn_top1"}, "metrics is missing or of another kind"),
        ({"common": "epochs=1"}, "common is missing or of another kind"),
        ({"grid": {"n_views": 2}}, "grid.n_views is missing or of another kind"),
        ({"rows": [{"overrides": []}]}, r"rows\[0\].name is missing or of another kind"),
        ({"rows": [{"name": "A", "overrides": "loss=nt_xent"}]}, r"rows\[0\].overrides is missing"),
        ({"rows": [{"name": "A", "override": []}]}, "row A has an unknown key override"),
        ({"rows": [{"name": "A", "published": {"x": [1, 2, 3]}}]}, "A: published.x has 3 values for 2 points"),
        ({"presets": {"smoke": {"word": []}}}, "presets.smoke has an unknown key word"),
        (
            {"presets": {"smoke": {"grid": {"n_views": [5]}}}},
            r"presets\.smoke\.grid: n_views has no value 5: try one of",
        ),
        (
            {"presets": {"smoke": {"grid": {"n_view": [5]}}}},
            r"presets\.smoke\.grid has an unknown key n_view: try one of",
        ),
        ({"presets": {}}, "has no preset smoke: try one of paper"),
        (
            {"rows": [{"name": f"a {sign} b", "overrides": ["seed=1"]} for sign in "<>"]},
            "two rows of t have the folder a-b",
        ),
    ],
)
def test_mistakes_in_a_table_are_refused(table_file, values, message):
    with pytest.raises(ConfigError, match=message):
        read_table(changed(table_file, **values), preset="smoke")


@pytest.mark.parametrize(
    ("given", "merged"),
    [
        ([["a=1", "+b=2"], ["a=3"], ["b=4"]], ("a=3", "b=4")),  # the last for a key stays
        ([["evaluator.knn.k=5", "evaluator.linear.l2=[1]"]], ("evaluator.knn.k=5", "evaluator.linear.l2=[1]")),
        (  # settings of evaluators left out go with them
            [["evaluator.knn.k=5", "evaluator.linear.l2=[1]"], ["evaluator=[knn,mine]"]],
            ("evaluator.knn.k=5", "evaluator=[knn,mine]"),
        ),
    ],
)
def test_overrides_are_merged(given, merged):
    assert merge_overrides(*given) == merged


def test_figures_are_looked_up_by_name_or_path():
    result = {"test": {"knn_top1": 5.0}, "audit": {"linear": {"top1": 7}}}
    assert look_up(result, "knn_top1") == 5
    assert look_up(result, "audit.linear.top1") == 7
    assert look_up(result, "audit.other.top1") is None
