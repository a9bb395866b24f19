"""Curves and sweeps as means over seeds."""

from typing import Any

import pytest

from contrastive.study.curves import label, over_seeds, read_series, read_sweeps


def row(name: str, *runs: dict[str, Any], point: str = "", curves: Any = None) -> dict[str, Any]:
    full = f"{name}, {point}" if point else name
    return {"name": full, "point": point, "runs": list(runs), "published_curves": curves or {}}


def run(values: list[float], *, seed: int = 0, epochs: int = 2) -> dict[str, Any]:
    curve = {"epoch": list(range(len(values))), "value": values}
    settings = {"epochs": str(epochs)}
    return {
        "seed": seed,
        "minutes": 4.0,
        "settings": settings,
        "curves": {"test/knn": curve},
        "test": {"knn": values[-1]},
    }


def test_mean_and_std_at_the_epochs_that_all_seeds_have():
    curves = over_seeds([{"epoch": [0, 1, 2], "value": [1.0, 2.0, 3.0]}, {"epoch": [0, 2], "value": [3.0, 5.0]}])
    assert (curves["epoch"], curves["mean"], curves["n"]) == ([0, 2], [2.0, 4.0], 2)
    assert curves["std"] == pytest.approx([2**0.5, 2**0.5], rel=1e-3)


def test_seeds_that_agree_have_no_deviation():
    same = {"epoch": [0, 1], "value": [0.1, 1 / 3]}
    assert over_seeds([same] * 10)["std"] == [0.0, 0.0]
    assert over_seeds([same])["std"] == [0.0, 0.0]


def test_rows_are_split_into_method_and_setting():
    published = {"test/knn": {"epoch": [1, 2], "value": [7.0, 8.0]}}
    record = {"rows": [row("A", run([1.0, 2.0])), row("A, noise 0.3", run([1.0, 3.0]), curves=published)]}
    ours, noisy, dashed = read_series(record)
    assert (ours.method, ours.setting, ours.minutes_per_epoch) == ("A", "", 2.0)
    assert (noisy.method, noisy.setting, noisy.published) == ("A", "noise 0.3", False)
    assert (dashed.method, dashed.setting, dashed.published, dashed.mean) == ("A", "noise 0.3", True, [7.0, 8.0])
    record = {"rows": [row("A, b", run([1.0, 2.0]), point="rho 0.9")]}
    assert [(s.method, s.setting) for s in read_series(record)] == [("A, b", "rho 0.9")]


def test_a_sweep_needs_three_numbers():
    rows = [
        row("A", run([x + s]), run([x + s + 2.0]), point=f"tau {x}, {key} 1" if s else f"tau {x}, {key} 0")
        for key in ("lr",)
        for s in (0, 10)
        for x in (0.1, 0.2, 0.3)
    ]
    entries = read_sweeps({"rows": rows, "metrics": {"knn": "kNN"}})
    assert {entry["setting"] for entry in entries} == {"tau"}  # lr has two values
    assert [(e["x"], e["at"], e["mean"], e["n"]) for e in entries][:2] == [(0.1, "lr 0", 1.1, 2), (0.2, "lr 0", 1.2, 2)]
    assert read_sweeps({"rows": rows[:2], "metrics": {"knn": "kNN"}}) == []


def test_axes_have_units():
    assert label("test/knn_top1") == "kNN top-1 (%)"
    assert label("test/mine_top1") == "mine top1 (%)"
    assert label("train/loss") == "training loss"
