"""Claims of a table: read along the grid, refused when they are about nothing, judged by a paired test."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from contrastive.bits import pack
from contrastive.errors import ConfigError
from contrastive.study.judge import judge_claims
from contrastive.study.render.claims import claims_grid
from contrastive.study.render.markdown import mixed_rows
from contrastive.study.spec import Table, published_number, read_table, table_paths
from contrastive.study.statistics import two_way_estimate
from contrastive.verdict import VERDICTS, verdict

SPEC = """
title: T
seeds: [0, 1, 2]
metrics: {knn_top1: kNN}
grid: {rho: [0.9, 0.5]}
rows:
  - {name: A, overrides: [loss=a]}
  - {name: B, overrides: [loss=b]}
  - {name: C, grid: {}, overrides: [loss=c]}
  - {name: D, grid: {n_views: [3]}, overrides: [loss=d]}
  - {name: Quoted, grid: {}, published: {knn_top1: 5}}
presets: {smoke: {overrides: [], points: 1}}
"""


def claims_of(folder: Path, *claims: dict[str, Any], preset: str = "paper") -> list[tuple[str, str]]:
    path = folder / "t.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(SPEC), "claims": list(claims)}))
    return [(claim["better"], claim["worse"]) for claim in read_table(path, preset=preset).claims]


def claim(better: str, worse: str, **values: Any) -> dict[str, Any]:
    return {"better": better, "worse": worse, "metric": "knn_top1", "source": "us", **values}


def test_a_claim_holds_at_every_point_that_both_rows_have(tmp_path):
    assert claims_of(tmp_path, claim("A", "B")) == [("A, rho 0.9", "B, rho 0.9"), ("A, rho 0.5", "B, rho 0.5")]
    assert claims_of(tmp_path, claim("A, rho 0.5", "C")) == [("A, rho 0.5", "C")]
    assert claims_of(tmp_path, claim("A", "C")) == [("A, rho 0.9", "C"), ("A, rho 0.5", "C")]


def test_a_preset_keeps_the_claims_about_its_rows(tmp_path):
    given = claim("A", "B"), claim("A, rho 0.5", "C")
    assert claims_of(tmp_path, *given, preset="smoke") == [("A, rho 0.9", "B, rho 0.9")]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (claim("A", "Z"), "names the row Z: try one of A, rho 0.9; "),
        (claim("A", "D"), "share no point: try their names with the point"),
        (claim("A", "B", metric="knn"), "names the metric knn: try one of knn_top1"),
        (claim("A", "B", least=1), "unknown key least"),
        ({"better": "A", "worse": "B", "metric": "knn_top1"}, "lacks source: try source"),
    ],
)
def test_a_claim_about_what_is_not_there_is_refused(tmp_path, wrong, message):
    with pytest.raises(ConfigError, match=message):
        claims_of(tmp_path, wrong)


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
        is_opposite = (
            min(effects, default=0.0) < 0 and not one["source"].startswith("our ") and bool(PAPER.search(one["source"]))
        )
        if is_opposite != is_marked:
            wrong.append(f"{one['better']} > {one['worse']}: {one['source']}")
    return wrong


@pytest.mark.parametrize("path", table_paths().values(), ids=table_paths().keys())
def test_no_paper_is_said_to_claim_what_its_figures_deny(path):
    assert misattributed(read_table(path)) == []


@pytest.mark.parametrize(
    ("source", "n_wrong"),
    [
        ("X et al. 2020", 1),
        ("the README", 1),
        ("X et al. 2020; contradicted at rho 0.5", 0),
        ("X et al. 2020; contradicted at rho 0.9", 2),  # not marked where it is, marked where it is not
        ("X et al. 2020; contradicted at rho 0.9, 0.5", 1),
        ("our question: X et al. 2020 have the reverse", 0),
    ],
)
@pytest.mark.parametrize("metric", ["knn_top1", "linear_top1"])  # the second is not published
def test_a_claim_that_its_paper_contradicts_is_found(tmp_path, source, n_wrong, metric):
    spec = yaml.safe_load(SPEC) | {"metrics": ["knn_top1", "linear_top1"]}
    spec["rows"][0]["published"], spec["rows"][1]["published"] = {"knn_top1": [50, "40 ± 1"]}, {"knn_top1": [40, 50]}
    spec["claims"] = [claim("A", "B", source=source, metric=metric)]
    (tmp_path / "t.yaml").write_text(yaml.safe_dump(spec))
    assert len(misattributed(read_table(tmp_path / "t.yaml"))) == n_wrong


def record(ours: list[float], theirs: list[float], *, gap: float = 0.0, seeds: tuple[int, ...] = ()) -> dict[str, Any]:
    """Two rows with runs of seeds 0, 1, ... on one processor; `seeds` replaces those of the second row."""
    rows = [
        {
            "name": name,
            "published": published,
            "runs": [{"seed": seed, "environment": 0, "test": {"knn": value}} for seed, value in values],
        }
        for name, published, values in (
            ("A, x", {"knn": "76.8 ± 1"}, enumerate(ours)),
            ("B, x", {"knn": "74.3"}, zip(seeds or range(len(theirs)), theirs, strict=True)),
        )
    ]
    claims = [{"better": "A, x", "worse": "B, x", "metric": "knn", "gap": gap, "source": "paper"}]
    environments = [{"device": "X"}, {"device": "Y"}]
    return {
        "rows": rows, "claims": claims, "metrics": {"knn": "kNN"}, "preset": "paper", "extra": [],
        "environments": environments,
    }  # fmt: skip


def test_of_differences_that_are_all_equal_nothing_is_said():
    (judged,) = judge_claims(record([10.0, 50.0, 90.0], [8.0, 48.0, 88.0]))
    assert (judged["effect"], judged["low"], judged["p"], judged["verdict"]) == (2.0, None, None, "undecided")


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


def test_a_verdict_is_corrected_for_the_number_of_claims_in_both_directions():
    for ours, theirs, word, p in (
        ([10.0, 50.0, 90.0], [9.0, 48.7, 88.9], "better", "p_holm"),
        ([9.0, 48.7, 88.9], [10.0, 50.0, 90.0], "worse", "p_worse"),
    ):
        one = record(ours, theirs)
        (alone,) = judge_claims(one)
        assert alone["verdict"] == word
        twenty = judge_claims({**one, "claims": one["claims"] * 20})
        assert {claim["verdict"] for claim in twenty} == {"undecided"}
        assert twenty[0][p] == pytest.approx(20 * alone[p], abs=1e-2)
        assert twenty[0][p] > 0.025 > alone[p]
        assert (twenty[0]["low"], twenty[0]["high"]) == (alone["low"], alone["high"])


def test_an_effect_within_the_gap_is_equal():
    (judged,) = judge_claims(record([10.0, 50.0, 90.0], [9.0, 49.1, 89.0], gap=2))
    assert (judged["verdict"], judged["p"] > 0.9) == ("equal", True)


def test_below_a_gap_is_the_mirror_of_above_it():
    ours, theirs = [10.0, 50.0, 90.0], [8.9, 48.6, 88.8]
    (above,), (below,) = (judge_claims(record(*pair, gap=1)) for pair in ((ours, theirs), (theirs, ours)))
    assert (above["p"], above["p_worse"]) == pytest.approx((below["p_worse"], below["p"]))
    assert above["p"] < 0.1 < 0.9 < above["p_worse"]


def test_intervals_allow_for_the_test_images_where_they_are_known():
    rng = np.random.default_rng(0)
    right = rng.random((2, 3, 200)) < np.array([0.8, 0.6])[:, None, None]
    one = record(*(100 * right.mean(2)))
    alone = judge_claims(one)[0]
    for row, bits in zip(one["rows"], right, strict=True):
        for run, of_seed in zip(row["runs"], bits, strict=True):
            run["correct"] = {"knn": pack(of_seed)}
    both = judge_claims(one)[0]
    assert (alone["over"], both["over"]) == ("seeds", "seeds, images")
    assert both["effect"] == alone["effect"]
    estimate = two_way_estimate(100 * (right[0].astype(float) - right[1]))
    assert (both["low"] + both["high"]) / 2 == pytest.approx(estimate.effect, abs=1e-4)
    assert both["high"] - both["low"] == pytest.approx(2 * estimate.half(), abs=2e-4)
    one["rows"][0]["runs"][1]["correct"] = {"knn": pack(~right[0, 1])}  # not what its accuracy counts
    assert judge_claims(one)[0] == alone


def test_seeds_are_paired():
    (judged,) = judge_claims(record([10.0, 50.0, 90.0], [9.0, 48.0, 89.0]))
    assert (judged["n"], judged["verdict"]) == (3, "undecided")
    (judged,) = judge_claims(record([10.0, 50.0, 90.0], [9.0, 49.1, 89.0]))
    assert judged["verdict"] == "better"
    assert judged["effect"] == pytest.approx(2.9 / 3, abs=1e-4)
    assert judged["published_effect"] == 2.5


def test_fewer_than_three_common_seeds_are_undecided():
    (judged,) = judge_claims(record([5.0, 6.0, 7.0], [1.0, 2.0, 3.0], seeds=(1, 2, 9)))
    assert (judged["n"], judged["low"], judged["p"], judged["verdict"]) == (2, None, None, "undecided")
    assert judged["effect"] == 5.0  # (6 - 1 + 7 - 2) / 2
    (judged,) = judge_claims(record([], []))
    assert (judged["n"], judged["effect"], judged["verdict"]) == (0, None, "undecided")


def test_runs_on_two_kinds_of_processor_are_no_pair():
    mixed = record([10.0, 50.0, 90.0, 30.0], [9.0, 49.1, 89.0, 0.0])
    assert mixed_rows(mixed) == ""
    mixed["rows"][1]["runs"][3]["environment"] = 1
    (judged,) = judge_claims(mixed)
    assert (judged["n"], judged["effect"]) == (3, pytest.approx(2.9 / 3, abs=1e-4))
    assert mixed_rows(mixed).startswith(
        "Runs on several kinds of processor: B, x (X (instruction set not recorded) and Y ("
    )


def test_the_printed_line_names_what_both_rows_share_once():
    head, line = claims_grid(record([10.0, 50.0, 90.0], [9.0, 49.1, 89.0], gap=0.5))
    assert head == [
        "claim", "verdict", "effect [95 % interval]", "metric", "n", "over", "p (Holm)", "gap", "published", "source",
    ]  # fmt: skip
    assert line[:2] == ["A > B (x)", "better"]
    assert line[2].startswith("+0.97 [+0.82, +1.11]")
    assert line[3] == "kNN"
    assert line[7:] == ["0.5", "+2.50", "paper"]
    small = {**record([10.0, 50.0], [9.0, 49.1]), "preset": "small"}
    assert "published (other setting)" in claims_grid(small)[0]
