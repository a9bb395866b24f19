"""Intervals over seeds and over seeds and images: scipy's values, and coverage of simulated data with known truth."""

import numpy as np
import pytest
from scipy import stats

from contrastive.study.statistics import holm, paired_test, two_way_estimate, two_way_test


def test_over_seeds_is_the_paired_t_test_of_scipy() -> None:
    differences = [1.0, 2.5, 0.5, 3.0]
    low, high, p = paired_test(differences, gap=0.5)
    ends = stats.ttest_1samp(differences, 0.5).confidence_interval(0.95)
    assert (low, high) == pytest.approx((ends.low, ends.high))
    assert p == pytest.approx(stats.ttest_1samp(differences, 0.5, alternative="greater").pvalue)
    assert paired_test([2.0, 2.0, 2.0]) == (2.0, 2.0, None)


def test_over_images_that_do_not_differ_it_is_the_test_over_seeds() -> None:
    by_seed = np.array([1.0, 2.5, 0.5, 3.0])
    both = two_way_test(by_seed[:, None].repeat(50, 1))
    assert both == pytest.approx(paired_test(by_seed.tolist()))


def simulated(rng: np.random.Generator, n_seeds: int, n_images: int, seed_std: float, image_std: float) -> np.ndarray:
    """(S, I) differences in correctness of two methods whose scores share the difficulty of the images."""
    difficulty = rng.normal(1, 1.5, n_images)
    of_images, of_seeds = rng.normal(0, image_std, (2, n_images)), rng.normal(0, seed_std, (2, n_seeds))
    score = difficulty + of_images[:, None] + of_seeds[:, :, None] + rng.normal(0, 1, (2, n_seeds, n_images))
    right = score + np.array([0.2, 0.0])[:, None, None] > 0
    return right[0].astype(float) - right[1]


@pytest.mark.parametrize(
    ("n_seeds", "seed_std", "image_std"), [(3, 0.1, 0.3), (5, 0.1, 1.0), (5, 0.3, 0.3), (10, 0.02, 1.0)]
)
def test_intervals_cover_the_truth_95_times_of_100(n_seeds: int, seed_std: float, image_std: float) -> None:
    rng = np.random.default_rng(1)
    spread = (1.5**2 + image_std**2 + seed_std**2 + 1) ** 0.5
    truth = stats.norm.cdf(1.2 / spread) - stats.norm.cdf(1 / spread)
    tests = [two_way_test(simulated(rng, n_seeds, 359, seed_std, image_std)) for _ in range(2000)]
    assert 93 <= 100 * np.mean([test.low <= truth <= test.high for test in tests]) <= 97


def test_seeds_alone_promise_too_much_about_other_images() -> None:
    rng = np.random.default_rng(1)
    spread = (1.5**2 + 1 + 0.02**2 + 1) ** 0.5
    truth = stats.norm.cdf(1.2 / spread) - stats.norm.cdf(1 / spread)
    tests = [paired_test(simulated(rng, 10, 359, 0.02, 1.0).mean(1).tolist()) for _ in range(400)]
    assert np.mean([test.low <= truth <= test.high for test in tests]) < 0.8


def test_holm_multiplies_the_smallest_by_the_number_of_tests() -> None:
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_variance_is_never_below_that_of_the_rows_alone():
    rows = np.array([[1.0], [3.0], [2.0]])
    rest = np.array([[1.0, -1.0, 1.0, -1.0], [-1.0, 1.0, -1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])  # images have no effect
    estimate = two_way_estimate(rows + 5 * rest)
    assert estimate.error == pytest.approx(np.std([1, 3, 2], ddof=1) / 3**0.5)
