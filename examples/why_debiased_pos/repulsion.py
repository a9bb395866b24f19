"""Two losses that take debiased positives apart: what their gradient does to a pair, without their estimates.

NT-Xent attracts an anchor to its positive as strongly as it repels it from its negatives: the weights of its logits
add up to 0. Debiased positives (Troeshestova & Isachenko 2023, eq. 12) hold the anchor's similarity with itself,
e^{1/t}, in their numerator a S + N (e^{s+} + e^{1/t}). It is a constant, and so

    -dL/ds+ = w N e^{s+} / num,    Σ_j dL/ds_j = w N (e^{s+} + e^{1/t}) / num    with w = sigmoid(log rest - log num):

repulsion is 1 + e^{1/t - s+} times attraction, 2 at the least. Each loss here has the value of the loss it derives
from, and its gradient with one of the two things changed. They are for two views and one process per batch.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from contrastive import Pairs, SelfSupervisedLoss, other_image
from contrastive.loss.debiased_pos import DebiasedPos


class RepulsiveNTXent(SelfSupervisedLoss):
    """NT-Xent with the repulsion of debiased positives: 1 + e^{1/t - s+} times the attraction of each anchor."""

    def per_anchor(self, pairs: Pairs) -> Tensor:
        positive, log_mass = pairs.positive_logits[:, 0], pairs.log_sum_exp(other_image)
        value = softplus(log_mass - positive)
        attraction = torch.sigmoid(log_mass - positive).detach()
        repulsion = attraction * (1 + torch.exp(1 / self.temperature - positive).detach())
        return with_gradient_of(value, repulsion * log_mass - attraction * positive)


class BalancedDebiasedPos(DebiasedPos):
    """Debiased positives whose repulsion is as strong as their attraction; the weights of the anchors stay."""

    def per_anchor(self, pairs: Pairs) -> Tensor:
        positive, log_mass = pairs.positive_logits[:, 0], pairs.log_sum_exp(other_image)
        estimate = self.estimate(pairs)
        share = torch.exp(math.log(pairs.n_negatives) + positive - estimate.floored())  # N e^{s+} / num
        attraction = (torch.sigmoid(estimate.log_rest - estimate.floored()) * share).detach()
        return with_gradient_of(estimate.loss(), attraction * (log_mass - positive))


def with_gradient_of(value: Tensor, other: Tensor) -> Tensor:
    """The value of one tensor with the gradient of another."""
    return value.detach() + other - other.detach()
