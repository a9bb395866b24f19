"""DFR on made features: a bias direction that training follows and balanced groups do not."""

import pytest
import torch

from contrastive.evaluator.base import FeatureSets, Scores
from contrastive.evaluator.dfr import DFR
from contrastive.evaluator.linear import Linear
from contrastive.types import Features


def features(n: int, conflicting: float, seed: int) -> Features:
    """Two classes; dimension 0 shows the bias plainly, dimension 1 the class in noise."""
    rng = torch.Generator().manual_seed(seed)
    label = torch.arange(n) % 2
    bias = torch.where(torch.rand(n, generator=rng) < conflicting, 1 - label, label)
    noise = torch.randn(n, 3, generator=rng)
    h = noise + torch.stack([20 * bias, 2 * label, torch.zeros(n)], 1)
    return Features(h, label, bias)


def sets(val: Features) -> FeatureSets:
    train, test = features(2000, 0.01, 0), features(2000, 0.5, 2)
    return FeatureSets(bank=train, train=train, val=val, test=test, n_classes=2, n_biases=2)


def worst(scores: Scores, data: FeatureSets) -> float:
    test = data.test
    right = scores.predictions[""] == test.label
    return min(100 * right[(test.label == c) & (test.bias == b)].double().mean().item() for c in (0, 1) for b in (0, 1))


def test_balanced_groups_lift_the_worst_group() -> None:
    data = sets(features(1000, 0.05, 1))
    biased, balanced_fit = worst(Linear()(data), data), worst(DFR()(data), data)
    assert balanced_fit > biased + 20
    best = 100 * torch.special.ndtr(torch.tensor(1.0)).item()  # of the class direction alone: means 2 apart
    assert balanced_fit == pytest.approx(best, abs=6)


@pytest.mark.slow
def test_it_is_deterministic_and_says_nothing_without_groups() -> None:
    data = sets(features(1000, 0.05, 1))
    assert torch.equal(DFR()(data).predictions[""], DFR()(data).predictions[""])
    assert DFR()(sets(features(40, 0.0, 1))).test != {}  # two groups that `val` has
    lone = features(1000, 0.0, 1)
    whole = DFR()(sets(lone)).test
    lone.bias[0] = 1  # a group of one image has no part in it
    assert DFR()(sets(lone)).test == pytest.approx(whole, abs=2)
    assert DFR()(sets(Features(lone.h, lone.label))) == Scores()


def test_the_strength_is_judged_by_images_that_were_not_fitted() -> None:
    rng = torch.Generator().manual_seed(0)
    noise = Features(torch.randn(80, 60, generator=rng), torch.arange(80) % 2, torch.arange(80) // 2 % 2)
    data = FeatureSets(bank=noise, train=noise, val=noise, test=noise, n_classes=2, n_biases=2)
    assert DFR(l2=(1e-4,))(data).val["worst_group_top1"] < 70  # of images that were, all are right
