"""RankMe in its limits."""

import pytest
import torch

from contrastive.evaluator.geometry import RankMe
from contrastive.types import Features
from tests.helpers import feature_sets


def rank_of(h: torch.Tensor) -> float:
    test = Features(h, torch.arange(len(h)) % 4)
    return RankMe()(feature_sets(test, test, test)).test[""]


def test_equal_singular_values_give_the_dimension():
    orthogonal = torch.linalg.qr(torch.randn(100, 12, generator=torch.Generator().manual_seed(0)))[0]
    assert rank_of(orthogonal) == pytest.approx(12, rel=1e-3)
    assert rank_of(orthogonal[:, :1].expand(-1, 12)) == pytest.approx(1, abs=1e-3)


def test_equals_the_formula():
    values = torch.tensor([3.0, 2.0, 1.0])
    h = torch.diag(values)
    p = values / values.sum()
    assert rank_of(h) == pytest.approx((-(p * p.log()).sum()).exp().item(), rel=1e-4)
