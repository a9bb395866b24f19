"""The verdicts of a comparison on runs that are made up: which runs are a pair, what is corrected, what is said."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from contrastive.bits import pack
from contrastive.errors import ConfigError
from contrastive.study.compare.judge import judge_comparison, planned_difference, power_text, sentence
from contrastive.study.compare.plan import Plan, plan_from_dict, read_plan

ALL = np.ones(40, dtype=bool)


def runs(*accuracies: float, first: int = 1100) -> list[dict[str, Any]]:
    """Final runs of the first search without bits, seed after seed."""
    return [{"seed": first + i, "test": {"knn_top1": value}} for i, value in enumerate(accuracies)]


def judged_runs(rights: list[np.ndarray], weights: str | None = None) -> list[dict[str, Any]]:
    """Final runs that got these images right."""
    return [
        {**run, "correct": {"knn_top1": pack(right)}, "weights": weights and f"{weights}{run['seed']}"}
        for run, right in zip(runs(*(100 * right.mean() for right in rights)), rights, strict=True)
    ]


def all_but(*wrong: int) -> np.ndarray:
    return ~np.isin(np.arange(40), wrong)


def plan_of(names: str = "a,b", *words: str, looks: int = 1) -> Plan:
    return plan_from_dict({**read_plan([f"loss={names}", "seeds=4", *words]).to_dict(), "looks": looks})


def judge(plan: Plan, **rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return judge_comparison(plan, rows, {})


def ahead(p: float, by: float = 1.0) -> list[float]:
    """Four differences whose two-sided p of the paired t-test is this."""
    effect = stats.t.isf(p / 2, 3) * (4 / 3) ** 0.5 / 2
    return [by * (effect + noise) for noise in (-1, 1, -1, 1)]


def test_a_run_without_the_judged_figure_is_an_error_that_names_it():
    lacking = [{"seed": 1100, "test": {}}, *runs(61, 62, 63, first=1101)]
    with pytest.raises(
        ConfigError, match="b, seed 1100, has no knn_top1, it has no figures at all: try another metric"
    ):
        judge(plan_of(), a=runs(60, 61, 62, 63), b=lacking)


def test_runs_are_paired_by_seed_never_by_order():
    a, b = runs(50, 60, 70, 80, 90), runs(51, 61, 71, 81, 91)
    (whole,) = judge(plan_of("a,b", "seeds=5"), a=a, b=b)
    (cut,) = judge(plan_of("a,b", "seeds=5"), a=[*a[:1], *a[2:]][::-1], b=b[1:])
    assert (whole["effect"], whole["n"]) == (1, 5)
    assert (cut["effect"], cut["n"]) == (1, 3)
    salted = runs(51, 61, 71, 81, 91, first=3_001_100)
    assert judge(plan_of("a,b", "seeds=5"), a=a, b=salted)[0]["effect"] == 1


def test_the_same_runs_have_equal_weights_and_judge_every_image_alike():
    rights = [all_but(i) for i in range(4)]

    def verdict(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> str:
        (claim,) = judge(plan_of("a,b", "margin=9"), a=theirs, b=ours)
        assert claim["effect"] == 0
        return claim["verdict"]

    assert verdict(judged_runs(rights, "w"), judged_runs(rights, "w")) == "the same runs"
    assert verdict(judged_runs(rights, "v"), judged_runs(rights, "w")) == "equal"
    assert verdict(judged_runs(rights), judged_runs(rights)) == "equal"  # an older record, which has no weights
    others = [all_but(i + 20) for i in range(4)]  # other images wrong, equally many
    assert verdict(judged_runs(others, "w"), judged_runs(rights, "w")) == "equal"
    (claim,) = judge(plan_of(), a=judged_runs([ALL] * 4, "v"), b=judged_runs([ALL] * 4, "w"))
    assert claim["verdict"] == "undecided"
    assert (claim["low"], claim["high"]) == (pytest.approx(-4.8, abs=0.1), pytest.approx(4.8, abs=0.1))


def test_one_image_of_forty_in_every_seed_has_an_interval():
    (claim,) = judge(plan_of(), a=judged_runs([all_but(i) for i in range(4)]), b=judged_runs([ALL] * 4))
    assert (claim["verdict"], claim["effect"]) == ("undecided", 2.5)
    assert claim["low"] < -1
    assert claim["high"] > 6


def test_constant_differences_without_images_have_no_interval():
    (claim,) = judge(plan_of(), a=runs(50, 60, 70, 80), b=runs(51, 61, 71, 81))
    assert (claim["verdict"], claim["low"], claim["p_differs"]) == ("undecided", None, None)
    said = sentence(claim, plan_of(), "kNN")
    assert said.endswith("against a, +1.0 points by kNN over 4 rows, which differ by the same each time")


def test_the_p_of_several_pairs_are_corrected_for_their_number():
    """Of the two hypotheses of each pair at most one is true: with two pairs the least p is doubled, not quadrupled."""
    alone = judge(plan_of(), a=runs(*[0.0] * 4), b=runs(*ahead(0.03)))
    assert [(claim["verdict"], claim["p_differs"]) for claim in alone] == [("better", pytest.approx(0.03, abs=1e-4))]
    pair = judge(plan_of("a,b,c"), a=runs(*[0.0] * 4), b=runs(*ahead(0.03)), c=runs(*ahead(0.04)))
    assert [claim["verdict"] for claim in pair] == ["undecided", "undecided"]
    assert [claim["p_differs"] for claim in pair] == pytest.approx([0.06, 0.08], abs=1e-4)
    clear = judge(plan_of("a,b,c"), a=runs(*[0.0] * 4), b=runs(*ahead(0.02)), c=runs(*ahead(0.4)))
    assert [claim["verdict"] for claim in clear] == ["better", "undecided"]


def test_looks_share_the_level():
    rows = {"a": runs(*[0.0] * 4), "b": runs(*ahead(0.03))}
    assert [judge(plan_of(looks=looks), **rows)[0]["verdict"] for looks in (1, 2)] == ["better", "undecided"]


def test_a_sentence_says_why_its_interval_excludes_0_and_nothing_is_decided():
    plan = plan_of("a,b,c")
    b, c = judge(plan, a=runs(*[0.0] * 4), b=runs(*ahead(0.03, by=5)), c=runs(*ahead(0.6, by=5)))
    assert b["low"] > 0
    assert "uncorrected; the verdict is corrected for 2 pairs)" in sentence(b, plan, "kNN")
    assert "corrected" not in sentence(c, plan, "kNN")
    again = plan_of(looks=2)
    (claim,) = judge(again, a=runs(*[0.0] * 4), b=runs(*ahead(0.03)))
    assert "uncorrected; the verdict is corrected for 1 pair and 2 looks)" in sentence(claim, again, "kNN")


def test_a_sentence_says_what_it_is_about():
    (claim,) = judge(plan_of(), a=runs(50, 61, 69, 80), b=runs(58, 66, 79, 88))
    about = {n: sentence(claim, plan_of("a,b", f"searches={n}"), "kNN").partition(":")[0] for n in (1, 3, 4, 5)}
    assert about == {1: "b with these settings", 3: "b in these 3 searches", 4: "b in these 4 searches", 5: "b"}


def test_no_difference_is_not_minus_zero():
    (claim,) = judge(plan_of(), a=runs(50.01, 60, 70.01, 80), b=runs(50, 60.01, 69.98, 80))
    assert claim["effect"] < 0
    assert sentence(claim, plan_of(), "kNN").startswith(
        "b with these settings: equal to a within 1 (+0.0 points by kNN, "
    )


def test_what_a_plan_finds_follows_from_the_test_images():
    def found(*words: str, n_images: int = 10_000, accuracy: float = 40) -> float:
        return planned_difference(plan_of("a,b", *words), n_images, accuracy)

    assert found("seeds=8", n_images=40, accuracy=90) > 5  # one image is 2.5 points
    assert found("seeds=8", n_images=40) > found("seeds=8", n_images=400) > found("seeds=8") > 0.7
    assert found("seeds=3", n_images=359, accuracy=50) > found("seeds=3", n_images=359, accuracy=95)
    assert found("seeds=3", "searches=8") < found("seeds=3", "searches=5")
    assert "on 40 test images at an accuracy of 90 %" in power_text(plan_of(), 40, 90.2)
    assert "at an unknown accuracy, so of 50 %" in power_text(plan_of(), 40, None)
