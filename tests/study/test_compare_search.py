"""What a search proposes: near narrow optima, among choices and whole numbers, after failures, the same each time."""

from collections.abc import Mapping

import numpy as np
import pytest

from contrastive.study.compare.search import Tried, left_to_find, proposals, smoothed
from contrastive.study.compare.space import Knob, points, read_knob

BOX = [
    read_knob("temperature", "tag(log, interval(0.05, 1))"),
    read_knob("optimizer.lr", "tag(log, interval(1e-4, 1))"),
]
DEFAULT = {"temperature": 0.5, "optimizer.lr": 0.001}
FAILED = float("-inf")


def narrow(point: Mapping[str, str]) -> float:
    """An accuracy with a peak of 8 points that a tenth of the box shows: a factor of two in temperature."""
    t, lr = (knob.place(point) or 0.0 for knob in BOX)
    return 60 + 8 * float(np.exp(-0.5 * (((t - 0.3) / 0.1) ** 2 + ((lr - 0.62) / 0.15) ** 2)))


def search(
    knobs: list[Knob], worth, n: int, first: int, seed: int, noise: float = 1.0
) -> list[tuple[dict, list[float]]]:
    rng = np.random.default_rng(seed)
    tried = [Tried(p or DEFAULT, [worth(p or DEFAULT) + noise * rng.normal()]) for p in points(knobs, first, draw=seed)]
    while len(tried) < n:
        new = proposals(knobs, tried, min(4, n - len(tried)), draw=seed + len(tried))
        tried += [Tried(p, [worth(p) + noise * rng.normal()]) for p in new]
    return tried


def chosen(knobs: list[Knob], tried: list) -> dict:
    return max(zip(smoothed(knobs, tried), tried, strict=True), key=lambda pair: pair[0])[1][0]


@pytest.mark.slow
def test_a_narrow_optimum_is_found_better_than_by_points_that_are_spread_evenly():
    lost = {first: [68 - narrow(chosen(BOX, search(BOX, narrow, 24, first, seed))) for seed in range(5)]
            for first in (6, 24)}  # fmt: skip
    assert np.mean(lost[6]) < 0.5 * np.mean(lost[24])
    assert np.median(lost[6]) < 1


def test_proposals_follow_from_points_and_values_alone():
    tried = search(BOX, narrow, 12, 6, seed=1)
    once = proposals(BOX, tried, 4, draw=5)
    smoothed(BOX, search(BOX, narrow, 8, 6, seed=2))
    assert proposals(BOX, tried, 4, draw=5) == once
    assert len({tuple(point.values()) for point in once}) == 4
    assert all(point not in [known for known, _ in tried] for point in once)
    for point in once:
        assert all(0 <= knob.place(point) <= 1 for knob in BOX)
        assert point == {knob.key: knob.at(knob.place(point)) for knob in BOX}, "settings as they are typed"


def test_choices_and_whole_numbers_are_searched():
    knobs = [read_knob("head", "choice(linear, mlp, none)"), read_knob("top_k", "int(interval(1, 6))")]

    def worth(point: Mapping[str, str]) -> float:
        return {"linear": 50.0, "mlp": 58.0, "none": 45.0}[point["head"]] - abs(int(point["top_k"]) - 4)

    tried = search(knobs, lambda p: worth({"head": "none", "top_k": "1"} if p is DEFAULT else p), 18, 6, 0, noise=0.3)
    best = max((point for point, _ in tried[1:]), key=worth)
    assert (best["head"], abs(int(best["top_k"]) - 4) <= 1) == ("mlp", True)
    assert all(point["head"] in knobs[0].choices and point["top_k"] in "123456" for point, _ in tried[1:])


def test_where_everything_was_tried_points_are_repeated():
    knobs = [read_knob("head", "choice(linear, mlp)")]
    tried = [Tried({"head": "linear"}, [50.0]), Tried({"head": "mlp"}, [60.0])]
    assert len(proposals(knobs, tried, 3, draw=0)) == 3


def test_points_that_failed_are_stayed_away_from():
    def worth(point: Mapping[str, str]) -> float:
        return FAILED if BOX[1].place(point) > 0.6 else 60 + 5 * BOX[0].place(point)

    tried = search(BOX, worth, 20, 6, seed=0, noise=0.0)
    failed = [own == [FAILED] for _, own in tried]
    assert any(failed[:6])
    assert np.mean(failed[6:]) < np.mean(failed[:6])
    assert [value for value, lost in zip(smoothed(BOX, tried), failed, strict=True) if lost] == [FAILED] * sum(failed)
    nothing = [Tried(point, [FAILED]) for point, _ in tried[1:6]]
    assert len(proposals(BOX, nothing, 4, draw=0)) == 4
    assert smoothed(BOX, nothing) == [FAILED] * 5


def test_what_is_left_to_find_shrinks_with_the_search_and_is_none_without_a_model():
    def worth(point: Mapping[str, str]) -> float:
        return 60 - 10 * ((BOX[0].place(point) - 0.4) ** 2 + (BOX[1].place(point) - 0.6) ** 2)

    deep = search(BOX, worth, 32, 8, seed=3, noise=0.3)
    best = deep[int(np.argmax(smoothed(BOX, deep)))][0]
    (found,) = left_to_find(BOX, [deep], [best])
    middling = int(np.argsort([own[0] for _, own in deep])[16])
    thrice = [Tried(own.settings, own.values * (3 if i == middling else 1)) for i, own in enumerate(deep)]
    (bad,) = left_to_find(BOX, [thrice], [deep[middling].settings])  # had this one been chosen
    assert 0 <= found["low"] <= found["mean"] <= found["high"] < 1
    true = 60 - worth(deep[middling][0])
    assert bad["low"] - 0.2 <= true <= bad["high"] + 0.2
    assert bad["mean"] > found["mean"]
    assert left_to_find(BOX, [deep], [best]) == [found]
    assert left_to_find(BOX, [deep[:7]], [best]) is None
    assert left_to_find([], [deep], [best]) is None
    assert left_to_find(BOX, [[Tried(p, [FAILED]) for p, _ in deep]], [best]) is None


def test_a_search_tells_another_one_what_it_missed():
    """A narrow best that one search found; all figures of the other are 3 points lower, for its images are harder."""

    def worth(point: Mapping[str, str]) -> float:
        at = [knob.place(point) for knob in BOX]
        return 60 + 8 * np.exp(-sum((x - c) ** 2 for x, c in zip(at, (0.3, 0.4), strict=True)) / 0.02)

    finds, misses = (search(BOX, worth, 24, 6, seed=seed, noise=0.3) for seed in (1, 5))
    best = finds[int(np.argmax(smoothed(BOX, finds)))].settings
    low = min(misses, key=lambda own: own.values[0]).settings
    harder = [Tried(own.settings, [value - 3 for value in own.values]) for own in misses]
    both = left_to_find(BOX, [finds, harder], [best, low])
    true = worth(best) - worth(low)
    assert true > 5
    assert both[0]["mean"] < 0.6
    assert both[1]["mean"] == pytest.approx(true, abs=1.5)
    assert both[0]["sd"] == both[1]["sd"] < max(one["high"] - one["low"] for one in both) / 2


@pytest.mark.parametrize("default", [{}, {"temperature": None, "optimizer.lr": 1.0}])
def test_default_settings_without_a_place_are_worth_what_they_were(default):
    tried = [Tried(default, [70.0]), *search(BOX, narrow, 8, 6, seed=0)[1:]]
    assert smoothed(BOX, tried)[0] == 70
    assert len(proposals(BOX, tried, 2, draw=0)) == 2
