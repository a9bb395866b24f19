"""RankMe and α-ReQ by their formulas and by least squares."""

import numpy as np
import pytest
import torch

from contrastive.evaluator.base import FeatureSets
from contrastive.evaluator.geometry import AlphaReQ, RankMe
from contrastive.types import Features
from tests.helpers import feature_sets


def test_equals_the_formula():
    values = torch.tensor([3.0, 2.0, 1.0])
    test, p = Features(torch.diag(values), torch.arange(3)), values / values.sum()
    expected = (-(p * p.log()).sum()).exp().item()
    assert RankMe()(feature_sets(test, test, test)).test[""] == pytest.approx(expected, rel=1e-4)


def of_spectrum(eigenvalues: torch.Tensor) -> FeatureSets:
    """Features of 300 images whose covariance has these 20 eigenvalues, but for a factor."""
    rng = torch.Generator().manual_seed(0)
    centered = torch.randn(300, 20, generator=rng, dtype=torch.float64)
    orthogonal = torch.linalg.qr(centered - centered.mean(0))[0]
    test = Features((orthogonal * eigenvalues.sqrt()).float() + 3, torch.arange(300) % 4)
    return feature_sets(test, test, test)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_alpha_of_a_spectrum_that_is_a_power_law(alpha):
    sets = of_spectrum(torch.arange(1, 21, dtype=torch.float64) ** -alpha)
    assert AlphaReQ()(sets).test[""] == pytest.approx(alpha, abs=1e-4)
    assert AlphaReQ(first=2, last=10)(sets).test[""] == pytest.approx(alpha, abs=1e-4)


@pytest.mark.parametrize(("first", "last"), [(1, 20), (2, 20), (1, 19), (3, 18)])
def test_alpha_counts_the_eigenvalues_from_first_to_last(first, last):
    eigenvalues = torch.linspace(3, 1, 20, dtype=torch.float64).exp()  # no power law
    rank = np.arange(first, last + 1)
    slope, _ = np.polyfit(np.log(rank), np.log(eigenvalues[first - 1 : last].numpy()), 1)
    assert AlphaReQ(first=first, last=last)(of_spectrum(eigenvalues)).test[""] == pytest.approx(-slope, rel=1e-3)


def test_alpha_of_collapsed_features_is_left_out():
    test = Features(torch.ones(40, 6), torch.arange(40) % 4)
    assert AlphaReQ()(feature_sets(test, test, test)).test == {}
