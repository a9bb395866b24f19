"""Diagnostics of one batch, for curves: geometry of the embeddings, terms of the loss, labels and biases."""

import math

import torch
from torch import Tensor

from contrastive.distributed.process import gather
from contrastive.evaluator.alignment_uniformity import alignment, uniformity
from contrastive.loss.base import SelfSupervisedLoss
from contrastive.pairs.pairs import Pairs
from contrastive.pairs.relations import other_class, other_image, same_class
from contrastive.training.objective import Objective
from contrastive.training.step import StepOutput
from contrastive.types import Batch

MAX_IMAGES = 1024  # images of a batch whose pairs are compared


@torch.no_grad()
def diagnose(objective: Objective, output: StepOutput, batch: Batch) -> dict[str, float]:
    """Diagnostics of the last batch, over the first 1,024 images that all processes hold together."""
    h, z, label = (gather(value)[:MAX_IMAGES] for value in (output.h, output.z, batch.label))
    bias = None if batch.bias is None else gather(batch.bias)[:MAX_IMAGES]
    values = {f"pairs/{key}": value for key, value in geometry(z).items()}
    values |= {f"pairs/{key}": value for key, value in objective.diagnostics(h, z, label, bias).items()}
    loss = objective.loss
    if isinstance(loss, SelfSupervisedLoss) and len(z) > 1 and bool((label >= 0).all()):
        values |= {f"debiasing/{key}": value for key, value in debiasing(loss, z, label).items()}
    if bias is not None:
        values["bias/conflicting_pairs"] = conflicting_pairs(label, bias)
    return {key: value.item() for key, value in values.items()}


def geometry(z: Tensor) -> dict[str, Tensor]:
    """Mean cosine of positives and of negatives, alignment of views 0 and 1, uniformity of view 0; z (B, V, D)."""
    pairs = Pairs(z, temperature=1.0, anchor_views=z.shape[1])
    values = {"uniformity": uniformity(pairs.z[:, 0])}
    if pairs.n_views > 1:
        values["positive_similarity"] = pairs.positives.mean()
        values["alignment"] = alignment(pairs.z[:, 0], pairs.z[:, 1])
    values["negative_similarity"] = pairs.mean_logit(other_image).mean()
    return values


def conflicting_pairs(label: Tensor, bias: Tensor) -> Tensor:
    """Number of pairs i < j of the same class and different bias: the pairs that debiasing terms learn from."""
    return ((label[:, None] == label) & (bias[:, None] != bias)).sum() / 2


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
