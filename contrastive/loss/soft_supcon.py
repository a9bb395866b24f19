"""Supervised contrastive loss with graded positives.

Positives count by how much their classes have in common. The matrix of classes is yours.

:title: SupCon with graded positives
:data: labels
:when: Classes form a hierarchy or share attributes.
:memory: B
:checked: formula
:cite: khosla2020supcon
:related: supcon, softcon
"""

import torch
from torch import Tensor

from contrastive.errors import ConfigError, SettingError
from contrastive.loss.base import SupervisedContrastiveLoss
from contrastive.pairs.pairs import Pairs
from contrastive.pairs.relations import any_other
from contrastive.types import Split


class SoftSupCon(SupervisedContrastiveLoss):
    """SupCon whose positives are weighted by how much their classes have in common: hierarchies, shared attributes.

        L_i = lse_{a≠i} s_a - Σ_p w_p s_p / Σ_p w_p,    w_p = W[y_i, y_p]

    over all other views p. W = 1 on the diagonal and 0 elsewhere is SupCon (Khosla et al. 2020, eq. 2). The positive
    term is a product with the sums of the classes' embeddings: no matrix of pairs is held. An image without a label
    (-1) is only a negative; an anchor without positives contributes 0.

    Push: 1, which no curve shows: the pull is computed from sums over classes.

    Args:
        temperature: t > 0.
        weights: W, a square list of lists of numbers >= 0, symmetric, a row for each class; None = SupCon, as soon as
            `prepare` has told the number of classes.

    Shapes: z (B, V, D), label (B,) → scalar.

    Raises:
        ConfigError: an argument out of range, or fewer rows than classes.

    This is not exactly the loss of one paper. Several use a weighted mean of positives for labels with a distance.

    >>> import torch
    >>> from contrastive import SoftSupCon
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> label = torch.tensor([0, 1, 1])
    >>> SoftSupCon(weights=[[1, 0.5], [0.5, 1]])(z0, z1, label)
    tensor(2.2704)
    """

    def __init__(self, *, temperature: float = 0.5, weights: list[list[float]] | None = None) -> None:
        super().__init__(temperature=temperature)
        self.weights: Tensor | None
        self.register_buffer("weights", None)
        if weights is None:
            return
        matrix = torch.tensor(weights, dtype=torch.float32)
        if not (torch.equal(matrix, matrix.T) and bool((matrix >= 0).all())):
            raise SettingError("weights", "symmetric and at least 0", weights, "[[1,0.5],[0.5,1]]")
        self.weights = matrix

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        if self.weights is None:
            self.weights = torch.eye(n_classes)
        if len(self.weights) < n_classes:
            raise ConfigError(
                f"loss.weights has {len(self.weights)} rows for {n_classes} classes: try loss.weights=null"
            )

    def per_anchor(self, pairs: Pairs) -> Tensor:
        if self.weights is None:
            raise ConfigError("SoftSupCon has no weights yet: try SoftSupCon(weights=[[1, 0.5], [0.5, 1]])")
        weights, anchors, candidates = self.weights.to(pairs.anchors), pairs.anchors, pairs.candidates
        one_hot = _one_hot(pairs.candidate_ids.label, weights)  # (K, C)
        mine = _one_hot(pairs.anchor_ids.label, weights)
        row = mine @ weights  # (A, C): the weight of a positive by its class
        own = (row * mine).sum(1) * pairs.has_self  # that of the anchor, which is no positive of its own
        total = row @ one_hot.sum(0) - own
        pull = (anchors * (row @ (one_hot.T @ candidates))).sum(1) - own * anchors.square().sum(1)
        has_positive = total > 1e-6  # of rounding
        mean = pull / pairs.temperature / torch.where(has_positive, total, 1)
        return torch.where(has_positive, pairs.log_sum_exp(any_other) - mean, 0)


def _one_hot(label: Tensor, weights: Tensor) -> Tensor:
    """(S,) → (S, C) in the dtype of the weights (C, C); zeros for an unknown label."""
    return (label[:, None] == torch.arange(len(weights), device=label.device)).to(weights.dtype)
