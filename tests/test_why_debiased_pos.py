"""The losses of examples/why_debiased_pos pull and push as their text says."""

import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from contrastive import SelfSupervisedLoss, other_image
from contrastive.loss.debiased_pos import DebiasedPos
from contrastive.loss.nt_xent import NTXent
from tests.helpers import ROOT

spec = importlib.util.spec_from_file_location("repulsion", ROOT / "examples/why_debiased_pos/repulsion.py")
assert spec is not None and spec.loader is not None
repulsion: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(repulsion)


def forces(loss: SelfSupervisedLoss, z: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Value, attraction -dL/ds+, repulsion Σ_j dL/ds_j (the derivative by log S) and s+ of each anchor (A,)."""
    (pairs,) = loss.pairs(z)
    positive = pairs.positive_logits.detach().requires_grad_()
    log_mass = pairs.log_sum_exp(other_image).detach().requires_grad_()
    stand_in: Any = SimpleNamespace(
        positive_logits=positive,
        log_sum_exp=lambda relation: log_mass,
        n_negatives=pairs.n_negatives,
        has_self=pairs.has_self,
    )
    value = loss.per_anchor(stand_in)
    by_positive, by_mass = torch.autograd.grad(value.sum(), (positive, log_mass))
    return value.detach(), -by_positive[:, 0], by_mass, positive[:, 0].detach()


@pytest.mark.parametrize("temperature", [0.2, 0.5, 1.0])
def test_debiased_pos_repels_more_than_it_attracts(temperature):
    z = torch.randn(16, 2, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    value, attraction, repulsion_, positive = forces(DebiasedPos(temperature=temperature), z)
    excess = 1 + torch.exp(1 / temperature - positive)
    assert torch.allclose(repulsion_ / attraction, excess)
    assert (excess >= 2).all()
    balanced = forces(repulsion.BalancedDebiasedPos(temperature=temperature), z)
    assert torch.allclose(balanced[0], value)
    assert torch.allclose(balanced[1], attraction)
    assert torch.allclose(balanced[2], attraction)

    value, attraction, repulsion_, _ = forces(NTXent(temperature=temperature), z)
    assert torch.allclose(repulsion_, attraction)
    repulsive = forces(repulsion.RepulsiveNTXent(temperature=temperature), z)
    assert torch.allclose(repulsive[0], value)
    assert torch.allclose(repulsive[1], attraction)
    assert torch.allclose(repulsive[2], excess * attraction)
