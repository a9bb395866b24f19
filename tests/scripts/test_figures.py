"""Figures for print: PDF, PNG and CSV of runs or of a table's JSON."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from figures import draw_curves, draw_maps, draw_sweep, named_runs
from plot import MARKERS, marker_of

from contrastive.errors import ConfigError
from contrastive.report.curves import COLORS, Series, colors_of
from tests.helpers import write_files

pytest.importorskip("matplotlib")


def series(method: str, *, published: bool = False, setting: str = "") -> Series:
    return Series(
        method=method, setting=setting, key="test/knn_top1", published=published, epoch=[0, 1, 2],
        mean=[1.0, 2.0, 3.0], std=[0.5, 0.5, 0.5], n=3, minutes_per_epoch=None if published else 1.0,
    )  # fmt: skip


def entry(method: str, x: float) -> dict:
    return {"setting": "tau", "x": x, "metric": "knn_top1", "method": method, "at": "", "mean": x, "std": 0.1, "n": 2}


def check_files(paths: list[Path]) -> list[list[str]]:
    """The files have their formats; returns the rows of the CSV."""
    pdf, png, table = paths
    assert pdf.read_bytes().startswith(b"%PDF")
    assert png.read_bytes().startswith(b"\x89PNG")
    return list(csv.reader(table.open()))


def test_curves_with_published_ones_behind(tmp_path):
    chosen = [series("A"), series("A", published=True), series("B", setting="noise 0.3")]
    rows = check_files(draw_curves(chosen, ["test/knn_top1"], tmp_path / "out.pdf"))
    assert rows[0] == ["metric", "method", "setting", "published", "n", "epoch", "mean", "std"]
    assert rows[1] == ["test/knn_top1", "A", "", "False", "3", "0", "1.0", "0.5"]
    assert len(rows) == 1 + 9
    both = [series("A"), replace(series("A"), key="train/loss")]  # side by side
    rows = check_files(draw_curves(both, ["train/loss", "test/knn_top1"], tmp_path / "out.pdf"))
    assert [row[0] for row in rows[1::3]] == ["train/loss", "test/knn_top1"]


def test_a_sweep(tmp_path):
    entries = [entry(method, x) for method in "AB" for x in (0.2, 0.1, 0.3)]
    rows = check_files(draw_sweep(entries, "tau", "knn_top1", tmp_path / "out"))
    assert rows[0] == ["method", "at", "tau", "knn_top1", "std", "n"]
    assert len(rows) == 7


def test_maps_side_by_side(tmp_path):
    points = {"x": [0.0, 1.0], "y": [0.0, 1.0], "class": ["a", "b"]}
    rows = check_files(draw_maps({"A": points, "B": points, "C": points}, tmp_path / "out"))
    assert rows[1] == ["A", "0.0", "0.0", "a"]


def test_a_run_needs_no_name_and_its_path_may_hold_equals_signs(tmp_path):
    run = write_files(tmp_path / "loss/tau_plus=0.1/seed=0", {"result.json": "{}"})
    assert named_runs([str(run)]) == {"loss/tau_plus=0.1": [run]}
    assert named_runs([f"mine={run}", f"mine={run}"]) == {"mine": [run, run]}
    assert named_runs([f"tau_plus=0.1={run}"]) == {"tau_plus=0.1": [run]}
    with pytest.raises(ConfigError, match=r"tau_plus=0\.1/seed=1 is no finished run: try NAME=RUN"):
        named_runs([str(run.with_name("seed=1"))])


def test_rows_of_a_figure_differ_also_in_print_and_keep_their_colors_as_rows_are_added():
    names = [f"row {i}" for i in range(len(COLORS))]
    found = colors_of(names)
    assert (list(found), len(set(found.values()))) == (names, len(COLORS))
    assert colors_of([*names[:3], "row 0"]) == {name: found[name] for name in names[:3]}
    assert colors_of([*names, "one more"])["one more"] == COLORS[0]
    assert len({marker_of(color) for color in COLORS[: len(MARKERS)]}) == len(MARKERS)
