"""What a self-supervised loss makes of its false negatives, for batches with labels: for curves only."""

import math

import torch
from torch import Tensor

from contrastive.loss.base import SelfSupervisedLoss
from contrastive.pairs.relations import other_class, other_image, same_class


def debiasing(loss: SelfSupervisedLoss, z: Tensor, label: Tensor) -> dict[str, Tensor]:
    """Of one batch z (B, V, D) with labels (B,):

    false_negatives: share of the 2B - 2 negatives that have the anchor's class;
    negative_estimate, negative_oracle: mean over anchors of the log of the mean negative term, as the loss estimates
        it and over the true negatives alone;
    gradient_on_false_negatives: share of the gradient on the negatives' similarities that false negatives get.
    """
    pairs = loss.pairs(z.detach().float(), label)[0]
    n = 2 * pairs.n_images - 2
    kept = pairs.count(other_class)
    found = {"false_negatives": pairs.count(same_class).mean() / n}
    oracle = pairs.log_sum_exp(other_class) - kept.clamp(min=1).log()
    usable = kept > 0
    if usable.any():
        found["negative_oracle"] = oracle[usable].mean()
        found["negative_estimate"] = (loss.log_negative_mass(pairs) - math.log(n))[usable].mean()
    with torch.enable_grad():
        logits = pairs.logits.detach().requires_grad_()
        pairs.logits = logits
        value = loss.per_anchor(pairs).sum()
        if not value.requires_grad:  # a loss of one's own may do without negatives
            return found
        (gradient,) = torch.autograd.grad(value, logits)
    on_negatives = (gradient.abs() * pairs.related(other_image)).sum()
    found["gradient_on_false_negatives"] = (gradient.abs() * pairs.related(same_class)).sum() / on_negatives.clamp(
        min=1e-12
    )
    return found
