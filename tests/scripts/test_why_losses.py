"""The losses of studies/why_cifar10 pull and push as their text says."""

import matched
import pytest
import repulsion
import torch
from torch import Tensor

from contrastive import SelfSupervisedLoss, Sigmoid, other_image
from contrastive.loss.debiased_pos import DebiasedPos
from contrastive.loss.nt_xent import NTXent


def forces(loss: SelfSupervisedLoss, z: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Value, attraction -dL/ds+, repulsion Σ_j dL/ds_j and s+ of each anchor (A,)."""
    (pairs,) = loss.pairs(z)
    value = loss.per_anchor(pairs)
    similarities = [pairs.logits, pairs.positive_logits]
    matrix, positive = torch.autograd.grad(value.sum(), similarities, allow_unused=True, materialize_grads=True)
    repulsion = (matrix * pairs.related(other_image)).sum(1)
    return value.detach(), repulsion - matrix.sum(1) - positive.sum(1), repulsion, pairs.positive_logits.detach()[:, 0]


@pytest.mark.parametrize("temperature", [0.2, 0.5, 1.0])
def test_debiased_pos_repels_more_than_it_attracts(temperature):
    z = torch.randn(16, 2, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    value, attraction, repels, positive = forces(DebiasedPos(temperature=temperature), z)
    excess = 1 + torch.exp(1 / temperature - positive)
    torch.testing.assert_close(repels / attraction, excess)
    assert (excess >= 2).all()
    balanced = forces(repulsion.BalancedDebiasedPos(temperature=temperature), z)
    torch.testing.assert_close(balanced[:3], (value, attraction, attraction))
    value, attraction, repels, _ = forces(NTXent(temperature=temperature), z)
    torch.testing.assert_close(repels, attraction)
    repulsive = forces(repulsion.RepulsiveNTXent(temperature=temperature), z)
    torch.testing.assert_close(repulsive[:3], (value, attraction, excess * attraction))


@pytest.mark.parametrize("temperature", [0.2, 1.0])
def test_the_push_of_the_sigmoid_loss_is_given_and_taken(temperature):
    z = torch.randn(6, 2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    kinds = (Sigmoid, matched.SigmoidPushNTXent, matched.BalancedSigmoid)
    plain, given, taken = (kind(temperature=temperature, batch_size=6).double() for kind in kinds)
    push, of_given, of_taken = (own[2] / own[1] for own in (forces(loss, z) for loss in (plain, given, taken)))
    assert push.std() > 0.1
    torch.testing.assert_close(of_given, push)
    torch.testing.assert_close(of_taken, torch.ones_like(push))
    torch.testing.assert_close(given(z), NTXent(temperature=temperature)(z))
    torch.testing.assert_close(taken(z), plain(z))
