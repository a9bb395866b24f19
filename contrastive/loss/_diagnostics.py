"""Curves of a contrastive loss: how strongly it repels, and how it treats negatives of the anchor's own class."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from contrastive.pairs.pairs import Pairs
from contrastive.pairs.relations import Relation, other_class, other_image, same_class

PerAnchor = Callable[[Pairs], Tensor]


def mean_of(metrics: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean over dicts of each metric that all of them have."""
    names = [name for name in metrics[0] if all(name in of_one for of_one in metrics)]
    return {name: torch.stack([of_one[name] for of_one in metrics]).mean() for name in names}


def push_ratio(pairs: Pairs, per_anchor: PerAnchor) -> dict[str, Tensor]:
    """{pairs/push_ratio: repulsion of the batch / its attraction}; nothing for a batch too large to hold the matrix.

    The repulsion is the sum of dL/ds over the negatives, the attraction that of -dL/ds over all other pairs: 1 for
    NT-Xent, 1 + e^{1/t - s+} for an anchor of debiased positives. `pairs` as for `false_negative_metrics`.
    """
    if not pairs.dense:
        return {}
    value = per_anchor(pairs).sum()
    if not value.requires_grad:
        return {}
    similarities = [pairs.logits, *([pairs.positive_logits] if pairs.has_positive_logits else [])]
    matrix, *positive = torch.autograd.grad(value, similarities, materialize_grads=True)
    repulsion = (matrix * pairs.related(pairs.negatives)).sum()
    attraction = repulsion - matrix.sum() - sum(gradient.sum() for gradient in positive)
    return {"pairs/push_ratio": repulsion / attraction} if attraction > 0 else {}


def false_negative_metrics(
    pairs: Pairs, *, per_anchor: PerAnchor, log_negative_mass: PerAnchor, log_positive: PerAnchor
) -> dict[str, Tensor]:
    """Metrics of one labeled batch:

    debiasing/false_negatives: fraction of the N negatives that have the anchor's class;
    debiasing/negative_estimate, debiasing/negative_oracle: mean over anchors of the log of the mean negative term, as
        `log_negative_mass` estimates it and over the true negatives alone; debiasing/negative_error: the first minus
        the second. A loss that drops false negatives still divides by N, as the authors' code does: its error is the
        log of the share of true negatives, -0.105 for ten classes of one size;
    debiasing/positive_estimate, debiasing/positive_oracle, debiasing/positive_error: the same of the positive term, as
        `log_positive` estimates it and over the other images of the anchor's class; anchors without any are left out;
    debiasing/gradient_on_false_negatives: fraction of the gradient on the negatives' similarities that false negatives
        receive; absent if `per_anchor` does not depend on them or the batch is too large to hold the matrix.

    `pairs` must be built with gradients enabled, from embeddings that require one.
    """
    n = pairs.n_negatives
    metrics = {"debiasing/false_negatives": pairs.count(same_class).mean() / n}
    metrics |= _beside_oracle(pairs, "negative", log_negative_mass(pairs) - math.log(n), relation=other_class)
    metrics |= _beside_oracle(pairs, "positive", log_positive(pairs), relation=same_class)
    gradient = _gradient_on_logits(pairs, per_anchor) if pairs.dense else None
    if gradient is not None:
        on_negatives = (gradient * pairs.related(other_image)).sum()
        on_false = (gradient * pairs.related(same_class)).sum()
        metrics["debiasing/gradient_on_false_negatives"] = on_false / on_negatives.clamp(min=1e-12)
    return {name: value.detach() for name, value in metrics.items()}


def _beside_oracle(pairs: Pairs, term: str, estimate: Tensor, *, relation: Relation) -> dict[str, Tensor]:
    """Estimate, oracle log mean_j e^{s_j} over the related j, and the difference; means over anchors with such a j."""
    count = pairs.count(relation)
    known = count > 0
    if not known.any():
        return {}
    oracle = (pairs.log_sum_exp(relation) - count.clamp(min=1).log())[known].mean()
    mean = estimate[known].mean()
    return {
        f"debiasing/{term}_estimate": mean,
        f"debiasing/{term}_oracle": oracle,
        f"debiasing/{term}_error": mean - oracle,
    }


def _gradient_on_logits(pairs: Pairs, per_anchor: PerAnchor) -> Tensor | None:
    """(A, A): absolute gradient of the summed loss with respect to every similarity; None if it uses none of them."""
    value = per_anchor(pairs).sum()
    if not value.requires_grad:
        return None
    (gradient,) = torch.autograd.grad(value, pairs.logits, allow_unused=True)
    return None if gradient is None else gradient.abs()
