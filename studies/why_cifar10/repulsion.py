"""Two losses that take debiased positives apart: how strongly they attract and repel, and nothing else.

An anchor has the logit s+ with its other view and s_j with the N views of other images, S = Σ_j e^{s_j}. Its attraction
is -dL/ds+, its repulsion Σ_j dL/ds_j. In NT-Xent the two are equal. Debiased positives (Troeshestova & Isachenko 2023,
eq. 12) are L = softplus(log rest - log num), up to a common factor with

    num = a S + N (e^{s+} + e^{1/t}),  a = τ⁺ (N + 2) - 2,  rest = τ⁺ N (N + 2) S,

where e^{1/t}, the anchor with itself, is a constant. With w = sigmoid(log rest - log num) that gives

    attraction = w N e^{s+} / num,  repulsion = w (1 - a S / num) = w N (e^{s+} + e^{1/t}) / num:

repulsion is 1 + e^{1/t - s+} times attraction, at least twice as strong. Each loss here keeps the value of the loss
that it derives from and replaces its gradient: NT-Xent gets that ratio, debiased positives lose it. For two views.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from contrastive import Pairs, SelfSupervisedLoss, other_image
from contrastive.loss.debiased_pos import DebiasedPos


class RepulsiveNTXent(SelfSupervisedLoss):
    """NT-Xent whose repulsion is multiplied, for each anchor, by 1 + e^{1/t - s+}.

    Args:
        temperature: t > 0.
    """

    def __init__(self, *, temperature: float = 0.5) -> None:
        super().__init__(temperature=temperature)

    def per_anchor(self, pairs: Pairs) -> Tensor:
        positive, log_mass = pairs.positive_logits[:, 0], pairs.log_sum_exp(other_image)
        value = softplus(log_mass - positive)
        attraction = torch.sigmoid(log_mass - positive).detach()
        repulsion = attraction * (1 + torch.exp(1 / self.temperature - positive).detach())
        return with_gradient_of(value, repulsion * log_mass - attraction * positive)


class BalancedDebiasedPos(DebiasedPos):
    """Debiased positives whose repulsion is reduced to their attraction, for each anchor.

    Args:
        temperature: t > 0. tau_plus: τ⁺ in (0, 1).
    """

    def __init__(self, *, temperature: float = 0.5, tau_plus: float = 0.1) -> None:
        super().__init__(temperature=temperature, tau_plus=tau_plus)

    def per_anchor(self, pairs: Pairs) -> Tensor:
        positive, log_mass = pairs.positive_logits[:, 0], pairs.log_sum_exp(other_image)
        estimate = self.estimate(pairs)
        share = torch.exp(math.log(pairs.n_negatives) + positive - estimate.floored())  # N e^{s+} / num
        attraction = (torch.sigmoid(estimate.log_rest - estimate.floored()) * share).detach()
        return with_gradient_of(estimate.loss(), attraction * (log_mass - positive))


def with_gradient_of(value: Tensor, other: Tensor) -> Tensor:
    """The value of one tensor with the gradient of another."""
    return value.detach() + other - other.detach()
