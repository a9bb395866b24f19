"""Curves of a self-supervised loss on labeled data: how it treats negatives of the anchor's own class."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from contrastive.pairs.pairs import Pairs
from contrastive.pairs.relations import other_class, other_image, same_class

PerAnchor = Callable[[Pairs], Tensor]


def false_negative_metrics(pairs: Pairs, *, per_anchor: PerAnchor, log_negative_mass: PerAnchor) -> dict[str, Tensor]:
    """Metrics of one labeled batch:

    debiasing/false_negatives: fraction of the N = 2B - 2 negatives that have the anchor's class;
    debiasing/negative_estimate, debiasing/negative_oracle: mean over anchors of the log of the mean negative term, as
        `log_negative_mass` estimates it and over the true negatives alone;
    debiasing/gradient_on_false_negatives: fraction of the gradient on the negatives' similarities that false negatives
        receive; absent if `per_anchor` does not depend on them or the batch is too large to hold the matrix.

    `pairs` must be built with gradients enabled, from embeddings that require one.
    """
    n = pairs.n_negatives
    n_true = pairs.count(other_class)
    metrics = {"debiasing/false_negatives": pairs.count(same_class).mean() / n}
    has_true = n_true > 0
    if has_true.any():
        oracle = pairs.log_sum_exp(other_class) - n_true.clamp(min=1).log()
        metrics["debiasing/negative_oracle"] = oracle[has_true].mean()
        metrics["debiasing/negative_estimate"] = (log_negative_mass(pairs) - math.log(n))[has_true].mean()
    gradient = _gradient_on_logits(pairs, per_anchor) if pairs.dense else None
    if gradient is not None:
        on_negatives = (gradient * pairs.related(other_image)).sum()
        on_false = (gradient * pairs.related(same_class)).sum()
        metrics["debiasing/gradient_on_false_negatives"] = on_false / on_negatives.clamp(min=1e-12)
    return {name: value.detach() for name, value in metrics.items()}


def _gradient_on_logits(pairs: Pairs, per_anchor: PerAnchor) -> Tensor | None:
    """(A, A): absolute gradient of the summed loss with respect to every similarity; None if it uses none of them."""
    value = per_anchor(pairs).sum()
    if not value.requires_grad:
        return None
    (gradient,) = torch.autograd.grad(value, pairs.logits, allow_unused=True)
    return None if gradient is None else gradient.abs()
