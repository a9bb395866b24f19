"""The losses of studies/why_cifar10 pull and push as their text says."""

from types import SimpleNamespace
from typing import Any

import matched
import pytest
import repulsion
import torch
from torch import Tensor

from contrastive import SelfSupervisedLoss, Sigmoid, other_image
from contrastive.loss._diagnostics import push_ratio
from contrastive.loss.debiased_pos import DebiasedPos
from contrastive.loss.nt_xent import NTXent


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
    torch.testing.assert_close(repulsion_ / attraction, excess)
    assert (excess >= 2).all()
    balanced = forces(repulsion.BalancedDebiasedPos(temperature=temperature), z)
    torch.testing.assert_close(balanced[:3], (value, attraction, attraction))
    value, attraction, repulsion_, _ = forces(NTXent(temperature=temperature), z)
    torch.testing.assert_close(repulsion_, attraction)
    repulsive = forces(repulsion.RepulsiveNTXent(temperature=temperature), z)
    torch.testing.assert_close(repulsive[:3], (value, attraction, excess * attraction))


def pushes(loss: SelfSupervisedLoss, z: Tensor) -> Tensor:
    """The measured push of each anchor (A,)."""
    (pairs,) = loss.pairs(z)
    of_one = [
        push_ratio(pairs, lambda pairs, i=i: loss.per_anchor(pairs)[i : i + 1]) for i in range(len(pairs.anchors))
    ]
    return torch.stack([found["pairs/push_ratio"] for found in of_one])


@pytest.mark.parametrize("temperature", [0.2, 1.0])
def test_the_push_of_the_sigmoid_loss_is_given_and_taken(temperature):
    z = torch.randn(6, 2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    kinds = (Sigmoid, matched.SigmoidPushNTXent, matched.BalancedSigmoid)
    plain, given, taken = (kind(temperature=temperature, batch_size=6).double() for kind in kinds)
    assert pushes(plain, z).std() > 0.1
    torch.testing.assert_close(pushes(given, z), pushes(plain, z))
    torch.testing.assert_close(pushes(taken, z), torch.ones(12, dtype=torch.float64))
    torch.testing.assert_close(given(z), NTXent(temperature=temperature)(z))
    torch.testing.assert_close(taken(z), plain(z))
