"""Two losses that take the sigmoid loss apart: how strongly an anchor repels for each unit by which it attracts.

An anchor of the sigmoid loss attracts with σ(-s+ - b) and repels with Σ_j σ(s_j + b); its push is their ratio. The
learned b moves by the sum of Σ_j σ(s_j + b) - σ(-s+ - b) over the anchors, so that it comes to rest where a batch
repels as strongly as it attracts: the push of a batch tends to 1, those of its anchors need not. Each loss here keeps
the value of the loss that it is made of and replaces its gradient; b learns as in the sigmoid loss. For two views.
"""

import torch
from repulsion import with_gradient_of
from torch import Tensor
from torch.nn.functional import softplus

from contrastive import Pairs, Sigmoid, other_image


class SigmoidPushNTXent(Sigmoid):
    """NT-Xent whose repulsion is multiplied, for each anchor, by the push that the sigmoid loss has there."""

    def per_anchor(self, pairs: Pairs) -> Tensor:
        positive, log_mass = pairs.positive_logits[:, 0], pairs.log_sum_exp(other_image)
        attraction, repulsion = forces(pairs, self.bias)
        weight = torch.sigmoid(log_mass - positive).detach()
        gradient = weight * (repulsion / attraction * log_mass - positive) + (repulsion - attraction) * self.bias
        return with_gradient_of(softplus(log_mass - positive), gradient)


class BalancedSigmoid(Sigmoid):
    """The sigmoid loss whose repulsion is divided, for each anchor, by its push."""

    def per_anchor(self, pairs: Pairs) -> Tensor:
        attraction, repulsion = forces(pairs, self.bias)
        push = repulsion / attraction
        minus_bias = -self.bias.detach().expand(len(pairs.anchors))
        apart = pairs.mean_logit(other_image) + pairs.mean_softplus(other_image, minus_bias)
        gradient = pairs.n_negatives / push * apart - attraction * pairs.positive_logits[:, 0]
        return with_gradient_of(super().per_anchor(pairs), gradient + (repulsion - attraction) * self.bias)


def forces(pairs: Pairs, bias: Tensor) -> tuple[Tensor, Tensor]:
    """-dL/ds+ and Σ_j dL/ds_j of each anchor of the sigmoid loss, without a gradient."""
    attraction = torch.sigmoid(-pairs.positive_logits[:, 0] - bias).detach()
    with torch.enable_grad():
        minus_bias = -bias.detach().expand(len(attraction)).clone().requires_grad_()
        (not_repelled,) = torch.autograd.grad(pairs.mean_softplus(other_image, minus_bias).sum(), minus_bias)
    return attraction, pairs.n_negatives * (1 - not_repelled)  # σ(x) = 1 - σ(-x)
