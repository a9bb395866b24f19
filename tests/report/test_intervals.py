"""Intervals over seeds and over seeds and images: scipy's values, and coverage of simulated data with known truth."""

import numpy as np
import pytest
from scipy import stats

from contrastive.report.statistics import (
    Estimate,
    effect_found,
    holm,
    image_floor,
    of_rows,
    paired_estimate,
    probability_better,
    rows_that_decide,
    two_way_estimate,
)


def ends_of(estimate: Estimate) -> tuple[float, float]:
    """The ends of the 95 % interval."""
    return estimate.effect - estimate.half(), estimate.effect + estimate.half()


def covers(estimate: Estimate, truth: float) -> bool:
    low, high = ends_of(estimate)
    return low <= truth <= high


def test_over_seeds_is_the_paired_t_test_of_scipy() -> None:
    differences = [1.0, 2.5, 0.5, 3.0]
    estimate = paired_estimate(differences)
    ends = stats.ttest_1samp(differences, 0.5).confidence_interval(0.95)
    assert ends_of(estimate) == pytest.approx((ends.low, ends.high))
    assert estimate.at_most(0.5) == pytest.approx(stats.ttest_1samp(differences, 0.5, alternative="greater").pvalue)


def test_differences_that_are_all_equal_have_no_error():
    estimate = paired_estimate([2.0, 2.0, 2.0])
    assert (estimate.error, estimate.half()) == (0, 0)
    assert (estimate.at_most(1), estimate.at_most(2)) == (0, 1)


def test_over_images_that_do_not_differ_it_is_the_test_over_seeds() -> None:
    by_seed = np.array([10.0, 25.0, 5.0, 30.0])
    assert two_way_estimate(by_seed[:, None].repeat(50, 1)) == pytest.approx(paired_estimate(by_seed.tolist()))


def simulated(rng: np.random.Generator, n_seeds: int, n_images: int, seed_std: float, image_std: float) -> np.ndarray:
    """(S, I) differences in points of two methods whose scores share the difficulty of the images."""
    difficulty = rng.normal(1, 1.5, n_images)
    of_images, of_seeds = rng.normal(0, image_std, (2, n_images)), rng.normal(0, seed_std, (2, n_seeds))
    score = difficulty + of_images[:, None] + of_seeds[:, :, None] + rng.normal(0, 1, (2, n_seeds, n_images))
    right = score + np.array([0.2, 0.0])[:, None, None] > 0
    return 100 * (right[0].astype(float) - right[1])


@pytest.mark.parametrize(
    ("n_seeds", "seed_std", "image_std"), [(3, 0.1, 0.3), (5, 0.1, 1.0), (5, 0.3, 0.3), (10, 0.02, 1.0)]
)
def test_intervals_cover_the_truth_95_times_of_100(n_seeds: int, seed_std: float, image_std: float) -> None:
    rng = np.random.default_rng(1)
    spread = (1.5**2 + image_std**2 + seed_std**2 + 1) ** 0.5
    truth = stats.norm.cdf(1.2 / spread) - stats.norm.cdf(1 / spread)
    truth *= 100
    tests = [two_way_estimate(simulated(rng, n_seeds, 359, seed_std, image_std)) for _ in range(2000)]
    assert 93 <= 100 * np.mean([covers(test, truth) for test in tests]) <= 97


def test_holm_multiplies_the_smallest_by_the_number_of_tests() -> None:
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_variance_is_never_below_that_of_the_rows_alone():
    rows = np.array([[100.0], [300.0], [200.0]])
    rest = np.array([[1.0, -1.0, 1.0, -1.0], [-1.0, 1.0, -1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])  # images have no effect
    assert two_way_estimate(rows + 5 * rest).error == pytest.approx(np.std([100, 300, 200], ddof=1) / 3**0.5)


@pytest.mark.parametrize("n_seeds", [3, 5])
def test_an_interval_is_never_shorter_than_that_of_the_test_images_alone(n_seeds: int) -> None:
    rng = np.random.default_rng(2)
    for _ in range(60):
        table = simulated(rng, n_seeds, 200, 0.02, 0.3)
        ends = stats.ttest_1samp(table.mean(0), 0.0).confidence_interval(0.95)
        assert 2 * two_way_estimate(table).half() >= ends.high - ends.low - 1e-9


def test_seeds_that_agree_by_chance_still_have_the_interval_of_their_images() -> None:
    table = simulated(np.random.default_rng(3), 3, 200, 0.0, 1.0)
    table += table.mean() - table.mean(1, keepdims=True)  # every seed has the same mean
    ends = stats.ttest_1samp(table.mean(0), 0.0).confidence_interval(0.95)
    assert ends_of(two_way_estimate(table)) == pytest.approx((ends.low, ends.high))


@pytest.mark.parametrize("n_seeds", [3, 8])
def test_near_100_percent_intervals_cover_the_truth(n_seeds: int) -> None:
    """40 images at 98.5 %: in a sixth of such tables every image is right in every run of both, whatever the truth."""
    rng = np.random.default_rng(4)
    found = []
    for _ in range(400):
        accuracy = np.clip(0.985 + rng.normal(0, 0.007, 2), 0.9, 0.9999)
        mean = stats.norm.ppf(accuracy)[:, None, None] * (1 + 1.5**2 + 0.3**2) ** 0.5
        score = mean + rng.normal(0, 1.5, 40) + rng.normal(0, 0.3, (2, 1, 40)) + rng.normal(0, 1, (2, n_seeds, 40))
        estimate = two_way_estimate(100 * ((score[0] > 0).astype(float) - (score[1] > 0)))
        found.append(covers(estimate, 100 * (accuracy[0] - accuracy[1])))
    assert np.mean(found) >= 0.93


def test_images_that_are_all_right_leave_an_interval() -> None:
    """That of Agresti and Min for proportions of pairs that never differ: n12 = n21 = 0, plus a half each."""
    estimate = two_way_estimate(np.zeros((3, 40)))
    assert ends_of(estimate) == pytest.approx((-5.0, 5.0), abs=0.2)
    assert estimate.at_most() == 0.5


def test_the_floor_of_the_images_is_what_images_share_beyond_the_rest() -> None:
    rng = np.random.default_rng(5)
    squares = []
    for _ in range(200):  # 30 points on an image in every seed, 40 in one, over 100 images: a floor of 3
        squares.append(image_floor(rng.normal(0, 30, 100) + rng.normal(0, 40, (4, 100))) ** 2)
    assert np.mean(squares) == pytest.approx(9, rel=0.05)


def test_rows_that_always_decide_and_the_effect_that_rows_find():
    found = [effect_found(of_rows(0.8, 0.16, n)) for n in (3, 5, 8, 16)]
    assert found == pytest.approx([2.31, 1.33, 0.99, 0.73], abs=0.011)
    assert [rows_that_decide(0.8, 0.16, margin) for margin in (1, 0.7, 0.5)] == [18, 103, None]
    assert [rows_that_decide(1.63, 0.37, margin) for margin in (1, 2)] == [None, 23]


def test_the_share_of_pairs_that_are_won():
    assert probability_better([1, 2, 3], [0, 2]) == pytest.approx((1 + 1 + 1 + 0 + 0.5 + 1) / 6)
