"""Rows of runs are judged by a paired test: which runs are a pair, what is corrected, what an interval says."""

from typing import Any

import numpy as np
import pytest

from contrastive.report.frame import record_frame
from contrastive.report.judge import judge
from contrastive.report.statistics import two_way_estimate
from contrastive.run.figures import VERDICTS, verdict
from contrastive.text import pack_bits


def record(ours: list[float], theirs: list[float], *, gap: float = 0.0, seeds: tuple[int, ...] = ()) -> dict[str, Any]:
    """Two rows with runs of seeds 0, 1, ... on one processor; `seeds` replaces those of the second row."""
    rows = [
        {"name": name, "published": published,
         "runs": [{"seed": seed, "environment": 0, "test": {"knn": value}} for seed, value in values]}
        for name, published, values in (
            ("A, x", {"knn": "76.8 ± 1"}, enumerate(ours)),
            ("B, x", {"knn": "74.3"}, zip(seeds or range(len(theirs)), theirs, strict=True)),
        )
    ]  # fmt: skip
    claims = [{"better": "A, x", "worse": "B, x", "metric": "knn", "gap": gap, "source": "paper"}]
    beside = {"preset": "paper", "extra": [], "environments": [{"device": "X"}, {"device": "Y"}]}
    return {"rows": rows, "claims": claims, "metrics": {"knn": "kNN"}, **beside}


def judged(one: dict[str, Any], times: int = 1) -> dict[str, Any]:
    """The first of the claims of a record, judged so often at once."""
    return judge(record_frame(one), one["claims"] * times)[0]


@pytest.mark.parametrize(
    ("low", "high", "gap", "margin", "expected"),
    [(0.1, 2.0, 0, 0, "better"), (-2.0, -0.1, 0, 0, "worse"), (-1.0, 1.0, 0, 0, "undecided"),
     (0.1, 2.0, 1, 1, "undecided"), (0.1, 2.0, 3, 3, "equal"), (-2.0, -0.1, 1, 1, "undecided"),
     (-2.0, -1.1, 1, 1, "worse"), (1.1, 2.0, 1, 1, "better"),
     (-0.5, 0.5, 0, 1, "equal"), (0.1, 0.5, 0, 1, "better"), (-0.5, 1.5, 0, 1, "undecided"),
     (None, None, 0, 1, "undecided")],
)  # fmt: skip
def test_what_an_interval_says(low, high, gap, margin, expected):
    assert verdict(low, high, gap=gap, margin=margin) == expected
    assert expected in VERDICTS


@pytest.mark.parametrize(
    ("ours", "theirs", "seeds", "said"),
    [
        ([10.0, 50.0, 90.0], [8.0, 48.0, 88.0], (), (3, 2.0, None, "undecided")),  # which differ by the same each time
        ([10.0, 50.0, 90.0], [9.0, 48.0, 89.0], (), (3, 4 / 3, -0.101, "undecided")),
        ([10.0, 50.0, 90.0], [9.0, 49.1, 89.0], (), (3, 2.9 / 3, 0.823, "better")),
        ([9.0, 49.1, 89.0], [10.0, 50.0, 90.0], (), (3, -2.9 / 3, -1.110, "worse")),
        ([5.0, 6.0, 7.0], [1.0, 3.0, 3.0], (1, 2, 9), (2, 4.5, None, "undecided")),  # (6 - 1 + 7 - 3) / 2
        ([], [], (), (0, None, None, "undecided")),
    ],
)
def test_three_common_seeds_are_paired(ours, theirs, seeds, said):
    one = judged(record(ours, theirs, seeds=seeds))
    assert (one["n"], one["effect"], one["low"], one["verdict"]) == pytest.approx(said, abs=1e-3)


@pytest.mark.parametrize("turned", [False, True])
def test_a_verdict_is_corrected_for_the_number_of_claims_in_both_directions(turned):
    pair = [[10.0, 50.0, 90.0], [9.0, 48.7, 88.9]]
    one = record(*(pair[::-1] if turned else pair))
    word, p = ("worse", "p_worse") if turned else ("better", "p_holm")
    alone, of_twenty = judged(one), judged(one, 20)
    assert (alone["verdict"], of_twenty["verdict"]) == (word, "undecided")
    assert of_twenty[p] == pytest.approx(20 * alone[p], abs=1e-2)
    assert of_twenty[p] > 0.025 > alone[p]
    assert (of_twenty["low"], of_twenty["high"]) == (alone["low"], alone["high"])


def test_an_effect_within_the_gap_is_equal_and_below_it_the_mirror_of_above():
    one = judged(record([10.0, 50.0, 90.0], [9.0, 49.1, 89.0], gap=2))
    assert (one["verdict"], one["p"] > 0.9) == ("equal", True)
    ours, theirs = [10.0, 50.0, 90.0], [8.9, 48.6, 88.8]
    above, below = (judged(record(*pair, gap=1)) for pair in ((ours, theirs), (theirs, ours)))
    assert (above["p"], above["p_worse"]) == pytest.approx((below["p_worse"], below["p"]))
    assert above["p"] < 0.1 < 0.9 < above["p_worse"]


def test_intervals_allow_for_the_test_images_where_they_are_known():
    right = np.random.default_rng(0).random((2, 3, 200)) < np.array([0.8, 0.6])[:, None, None]
    one = record(*(100 * right.mean(2)))
    alone = judged(one)
    for row, bits in zip(one["rows"], right, strict=True):
        for run, of_seed in zip(row["runs"], bits, strict=True):
            run["correct"] = {"knn": pack_bits(of_seed)}
    both = judged(one)
    assert (alone["over"], both["over"]) == ("seeds", "seeds, images")
    assert both["effect"] == alone["effect"]
    estimate = two_way_estimate(100 * (right[0].astype(float) - right[1]))
    assert (both["low"] + both["high"]) / 2 == pytest.approx(estimate.effect, abs=1e-4)
    assert both["high"] - both["low"] == pytest.approx(2 * estimate.half(), abs=2e-4)
    one["rows"][0]["runs"][1]["correct"] = {"knn": pack_bits(~right[0, 1])}  # not what its accuracy counts
    assert judged(one) == alone


def test_runs_on_two_kinds_of_processor_are_no_pair():
    mixed = record([10.0, 50.0, 90.0, 30.0], [9.0, 49.1, 89.0, 0.0])
    assert record_frame(mixed).mixed == {}
    mixed["rows"][1]["runs"][3]["environment"] = 1
    one = judged(mixed)
    assert (one["n"], one["effect"]) == (3, pytest.approx(2.9 / 3, abs=1e-4))
    assert list(record_frame(mixed).mixed) == ["B, x"]
