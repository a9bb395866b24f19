"""The verdicts of a comparison on runs that are made up: which runs are a pair, what is corrected, what is said."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from contrastive.study.compare.judge import doubt, judge_comparison, level_of, luck_of, planned_difference, search_sd
from contrastive.study.compare.plan import Plan, read_plan
from contrastive.study.compare.progress import power_text
from contrastive.study.render.sentences import sentence
from contrastive.text import pack_bits

ALL = np.ones(40, dtype=bool)
NOISY = [0.4, 1.6, 0.1, 1.9]  # differences of four seeds


def runs(*accuracies: float, first: int = 1100) -> list[dict[str, Any]]:
    """Final runs of the first search without bits, seed after seed."""
    return [{"seed": first + i, "test": {"knn_top1": value}} for i, value in enumerate(accuracies)]


def judged_runs(rights: list[np.ndarray], weights: str | None = None) -> list[dict[str, Any]]:
    """Final runs that got these images right."""
    return [
        {**run, "correct": {"knn_top1": pack_bits(right)}, "weights": weights and f"{weights}{run['seed']}"}
        for run, right in zip(runs(*(100 * right.mean() for right in rights)), rights, strict=True)
    ]


def all_but(*wrong: int) -> np.ndarray:
    return ~np.isin(np.arange(40), wrong)


def plan_of(names: str = "a,b", *words: str, looks: int = 1) -> Plan:
    """Of settings as they are typed: nothing is searched."""
    words = ("budget=1", *words)
    return replace(read_plan([f"loss={names}", "seeds=4", *words]), looks=looks)


def searched(names: str = "a,b", *words: str) -> Plan:
    return read_plan([f"loss={names}", "seeds=4", "budget=8", *words])


def points(n: int, n_searches: int = 1, **more: float) -> list[dict[str, Any]]:
    """Searches of n points, as a record has them."""
    return [{"points": [{}] * n, "more": more or None}] * n_searches


def judge(plan: Plan, searches: dict[str, Any] | None = None, **rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return judge_comparison(plan, rows, {}, searches or {})


def ahead(p: float, by: float = 1.0) -> list[float]:
    """Four differences whose two-sided p of the paired t-test is this."""
    effect = stats.t.isf(p / 2, 3) * (4 / 3) ** 0.5 / 2
    return [by * (effect + noise) for noise in (-1, 1, -1, 1)]


def test_runs_are_paired_by_seed_never_by_order():
    a, b = runs(50, 60, 70, 80, 90), runs(51, 61, 71, 81, 91)
    (whole,) = judge(plan_of("a,b", "seeds=5"), a=a, b=b)
    (cut,) = judge(plan_of("a,b", "seeds=5"), a=[*a[:1], *a[2:]][::-1], b=b[1:])
    assert (whole["effect"], whole["n"]) == (1, 5)
    assert (cut["effect"], cut["n"]) == (1, 3)


def test_the_same_runs_have_equal_weights_and_judge_every_image_alike():
    rights = [all_but(i) for i in range(4)]

    def are_same(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> bool:
        (claim,) = judge(plan_of("a,b", "margin=9"), a=theirs, b=ours)
        assert (claim["effect"], claim["verdict"]) == (0, "equal")
        assert sentence(claim, plan_of(), "kNN").endswith("the same runs as a") == claim["same"]
        return claim["same"]

    assert are_same(judged_runs(rights, "w"), judged_runs(rights, "w"))
    assert not are_same(judged_runs(rights, "v"), judged_runs(rights, "w"))
    assert not are_same(judged_runs(rights), judged_runs(rights))  # an older record, which has no weights
    others = [all_but(i + 20) for i in range(4)]  # other images wrong, equally many
    assert not are_same(judged_runs(others, "w"), judged_runs(rights, "w"))
    (claim,) = judge(plan_of(), a=judged_runs([ALL] * 4, "v"), b=judged_runs([ALL] * 4, "w"))
    assert claim["verdict"] == "undecided"
    assert (claim["low"], claim["high"]) == (pytest.approx(-4.9, abs=0.1), pytest.approx(4.9, abs=0.1))


def test_one_image_of_forty_in_every_seed_has_an_interval():
    (claim,) = judge(plan_of(), a=judged_runs([all_but(i) for i in range(4)]), b=judged_runs([ALL] * 4))
    assert (claim["verdict"], claim["effect"]) == ("undecided", 2.5)
    assert claim["low"] < -1
    assert claim["high"] > 6


def test_constant_differences_without_images_have_no_interval():
    (claim,) = judge(plan_of(), a=runs(50, 60, 70, 80), b=runs(51, 61, 71, 81))
    assert (claim["verdict"], claim["low"], claim["p"]) == ("undecided", None, None)
    said = sentence(claim, plan_of(), "kNN")
    assert said.endswith("against a, +1.0 points by kNN over 4 rows, which differ by the same each time")


def test_intervals_of_several_pairs_are_simultaneous_and_decide():
    """Dunn 1961: with two pairs each is at half the level; 0 outside of it is the verdict."""
    alone = judge(plan_of(), a=runs(*[0.0] * 4), b=runs(*ahead(0.03)))
    assert [(claim["verdict"], claim["p"]) for claim in alone] == [("better", pytest.approx(0.03 / 0.9, abs=1e-4))]
    pair = judge(plan_of("a,b,c"), a=runs(*[0.0] * 4), b=runs(*ahead(0.03)), c=runs(*ahead(0.04)))
    assert [claim["verdict"] for claim in pair] == ["undecided", "undecided"]
    assert [claim["p"] for claim in pair] == pytest.approx([0.06 / 0.9, 0.08 / 0.9], abs=1e-4)
    assert all(claim["low"] < 0 for claim in pair)
    clear = judge(plan_of("a,b,c"), a=runs(*[0.0] * 4), b=runs(*ahead(0.02)), c=runs(*ahead(0.4)))
    assert [claim["verdict"] for claim in clear] == ["better", "undecided"]
    assert clear[0]["low"] > 0 > clear[1]["low"]


def test_the_interval_of_one_pair_is_that_of_scipy_and_graded_answers_are_its_t():
    (claim,) = judge(plan_of(), a=runs(*[0.0] * 4), b=runs(*NOISY))
    ends = stats.ttest_1samp(NOISY, 0.0).confidence_interval(0.955)
    assert (claim["low"], claim["high"]) == pytest.approx((ends.low, ends.high), abs=1e-4)
    t = stats.t(3, loc=1.0, scale=np.std(NOISY, ddof=1) / 2)
    answers = [t.cdf(-1), t.cdf(1) - t.cdf(-1), t.sf(1)]
    assert [claim[key] for key in ("worse", "within", "better")] == pytest.approx(answers, abs=1e-4)
    said = sentence(claim, plan_of(), "kNN")
    assert said.startswith("b with these settings: ")
    assert ": 1 % worse by more than 1, 49 % within 1, 50 % better by more; nothing was searched. " in said


def test_looks_that_were_not_planned_have_little_of_the_level():
    rows = {"a": runs(*[0.0] * 4), "b": runs(*ahead(0.03))}
    assert [judge(plan_of(looks=looks), **rows)[0]["verdict"] for looks in (1, 2)] == ["better", "undecided"]
    assert level_of(plan_of(looks=2)) == level_of(plan_of()) / 8


def test_with_one_search_the_interval_has_the_variance_of_a_search():
    rows = {"a": runs(*[35.0] * 4), "b": runs(*(35 + x for x in NOISY))}
    (claim,) = judge(searched(), {"a": points(8), "b": points(8)}, **rows)
    of_seeds, of_search = np.var(NOISY, ddof=1) / 4, search_sd(8, 35) ** 2 + search_sd(8, 36) ** 2
    df = (of_seeds + of_search) ** 2 / (of_seeds**2 / 3 + of_search**2 / 8)
    half = stats.t.isf(0.0225, df) * (of_seeds + of_search) ** 0.5
    assert (claim["low"], claim["high"]) == pytest.approx((1 - half, 1 + half), abs=1e-3)
    assert claim["verdict"] == "undecided"
    (bare,) = judge(searched(), {"a": points(1), "b": points(1)}, **rows)  # there was nothing to search
    assert bare["low"] == pytest.approx(1 - stats.t.isf(0.0225, 3) * of_seeds**0.5, abs=1e-3)


def test_two_searches_are_moderated_by_the_prior():
    """Smyth 2004: (d0 s0² + d s²) / (d0 + d), here with seeds that agree."""
    plan = searched("a,b", "searches=2")
    a = runs(*[35.0] * 4) + runs(*[35.0] * 4, first=2100)
    b = runs(*[36.0] * 4) + runs(*[38.0] * 4, first=2100)
    (claim,) = judge(plan, {"a": points(8, 2), "b": points(8, 2)}, a=a, b=b)
    prior = search_sd(8, 35) ** 2 + search_sd(8, 37) ** 2
    error = ((8 * prior + 2) / 9 / 2) ** 0.5
    assert (claim["n"], claim["over"]) == (2, "searches")
    assert claim["high"] - claim["low"] == pytest.approx(2 * stats.t.isf(0.0225, 9) * error, abs=1e-3)


def left(mean: float, sd: float) -> dict[str, float]:
    return {"mean": mean, "low": mean - 1.645 * sd, "high": mean + 1.645 * sd, "sd": sd}


def test_what_the_model_of_a_search_leaves_takes_the_place_of_the_records():
    luck = luck_of(points(32, 2, **left(0.4, 0.3)), 35)
    assert luck.gains.tolist() == [0.4, 0.4]
    assert (luck.of_search, luck.of_model) == pytest.approx((0.3**2, (doubt(2, 32) * 0.3) ** 2))
    assert (doubt(1, 24), doubt(3, 24), doubt(3, 6)) == pytest.approx((2.6, 1.6, 3.2))
    few, one = luck_of(points(8, 2, **left(0.4, 0.3)), 35).of_model, luck_of(points(32, **left(0.4, 0.3)), 35).of_model
    assert (few / luck.of_model, one / luck.of_model) == pytest.approx((3, 2.6**2 / 1.6**2))
    one_does_not_tell = luck_of([*points(32, **left(0.4, 0.3)), *points(32)], 35)
    assert (one_does_not_tell.gains.tolist(), one_does_not_tell.of_model) == ([0, 0], 0)
    assert luck_of(points(32), 35).of_search == pytest.approx((0.9 * 12 / 32) ** 2)
    assert search_sd(8, 35) == search_sd(12, 35) == pytest.approx(0.9)
    assert search_sd(12, 95) == pytest.approx(0.9 * 95 * 5 / 35 / 65)
    assert search_sd(1, 35) == 0


def test_the_interval_is_centered_on_what_more_search_may_bring():
    """Effect, interval and probabilities have one center; what the models are unsure of is in the interval."""
    rows = {"a": runs(*[35.0] * 4), "b": runs(36.9, 37.1, 36.95, 37.05)}
    (claim,) = judge(searched(), {"b": points(32, **left(0.0, 0.1)), "a": points(32, **left(0.3, 0.2))}, **rows)
    assert (claim["effect"], claim["seen"], claim["gain_against"]) == pytest.approx((1.7, 2.0, 0.3))
    assert claim["low"] + claim["high"] == pytest.approx(2 * 1.7, abs=1e-3)
    assert claim["unsure"] == pytest.approx(doubt(1, 32) * (0.1**2 + 0.2**2) ** 0.5, abs=1e-4)
    said = sentence(claim, searched(), "kNN")
    assert said.startswith("b: 1.7 points better than a by kNN (0.")
    assert said.endswith(", the final runs differ by +2.0 and more search may bring b 0.0 and a 0.3")
    (more,) = judge(searched(), {"b": points(32, **left(0.0, 0.1)), "a": points(32, **left(1.8, 0.5))}, **rows)
    assert (more["verdict"], more["effect"]) == ("undecided", pytest.approx(0.2))
    assert more["p"] > 0.05 > claim["p"]


def test_searches_are_rows_each_with_its_own_gain_and_what_models_are_unsure_of_is_common():
    """The one search of b that ended 2 points lower is known to: its gain is 2, so the searches agree."""
    plan = searched("a,b", "searches=3")
    a = [run for i in range(3) for run in runs(35.0, 35.2, 34.9, 35.1, first=1100 + 1000 * i)]
    b = [run for i, lost in enumerate((0, 2, 0)) for run in runs(*[38.0 - lost] * 4, first=1100 + 1000 * i)]
    none, own = points(24, 3, **left(0.0, 0.1)), [*points(24, **left(0.0, 0.1)), *points(24, **left(2.0, 0.1))]
    (claim,) = judge(plan, {"a": none, "b": [*own, *points(24, **left(0.0, 0.1))]}, a=a, b=b)
    assert (claim["effect"], claim["n"]) == (pytest.approx(2.95), 3)
    known = stats.t.isf(0.0225, 10) * ((2 * 0.1**2 + 0.017) / 3 + 2 * (doubt(3, 24) * 0.1) ** 2) ** 0.5
    assert claim["high"] - claim["effect"] == pytest.approx(known, rel=0.2)
    (blind,) = judge(plan, {"a": none, "b": none}, a=a, b=b)
    assert blind["high"] - blind["low"] > 1.2 * (claim["high"] - claim["low"])


def test_a_verdict_that_hangs_on_other_searches_is_barely_one():
    rows = {"a": runs(*[35.0] * 4), "b": runs(*(35 + x for x in ahead(0.001, 0.3)))}
    said = [judge(searched(), {"a": points(8), "b": points(8)}, **{**rows, "a": runs(*[35.0 + x] * 4)})[0]
            for x in np.arange(-2, 2, 0.1)]  # fmt: skip
    verdicts = [(claim["verdict"], claim["barely"]) for claim in said]
    barely = verdicts.index(("better", True))
    assert ("better", False) in verdicts[:barely]
    assert verdicts[barely:].count(("better", False)) == 0
    assert sentence(said[barely], searched(), "kNN").endswith("), barely; tuned with 8 points each")


def test_what_is_not_zero_is_not_printed_as_zero_and_zero_has_no_minus():
    (claim,) = judge(plan_of(), a=runs(*[0.0] * 4), b=runs(*ahead(0.03)))
    for verdict, low, effect, said in (
        ("better", 0.031, 2.0, "(0.03 to "), ("undecided", -0.04, 2.0, " -0.04 to "),
        ("undecided", 0.0, 2.0, " +0.0 to "), ("equal", -0.5, -0.001, "equal to a within 1 (+0.0 points by kNN, "),
    ):  # fmt: skip
        assert said in sentence({**claim, "verdict": verdict, "low": low, "effect": effect}, plan_of(), "kNN")


def test_what_a_plan_finds_follows_from_the_test_images():
    def found(*words: str, n_images: int = 10_000, accuracy: float = 40) -> float:
        return planned_difference(plan_of("a,b", *words), n_images, accuracy)

    assert found("seeds=8", n_images=40, accuracy=90) > 5  # one image is 2.5 points
    assert found("seeds=8", n_images=40) > found("seeds=8", n_images=400) > found("seeds=8") > 0.7
    assert found("seeds=3", n_images=359, accuracy=50) > found("seeds=3", n_images=359, accuracy=95)
    deep = {n: planned_difference(searched("a,b", f"searches={n}"), 10_000, 40) for n in (1, 2, 5, 8)}
    assert deep[1] > deep[2] > deep[5] > deep[8]
    assert planned_difference(searched("a,b", "budget=32"), 10_000, 40) < deep[1]
    assert "(40 test images, 90 % accuracy," in power_text(plan_of(), 40, 90.2)
    assert "(40 test images, 50 % accuracy, until a run tells," in power_text(plan_of(), 40, None)
