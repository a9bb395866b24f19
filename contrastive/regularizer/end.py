"""EnD: entangle samples of a class, disentangle samples of a bias."""

import torch
from torch import Tensor

from contrastive.errors import check_at_least, check_choice
from contrastive.loss.base import SEMANTICS, SampleLoss
from contrastive.types import unit


class EnD(SampleLoss):
    """alpha · R_perp + beta · R_par on unit features (Tartaglione et al. 2021, eqs. 5 and 7).

        R_perp = Σ_b |Σ_{i>j: b_i=b_j=b} z_i·z_j| / (number of pairs of equal bias)
        R_par  = 1 - mean (1 + z_i·z_j) / 2 over i > j of the same class and different bias

    Every view is a sample. An empty set of pairs contributes 0.

    Args:
        alpha: weight of R_perp, at least 0.
        beta: weight of R_par, at least 0.
        semantics: `paper` takes all pairs of R_par; `released` only those with b_i < b_j, about half of them.

    Shapes: features (B, V, F), label (B,), bias (B,) → scalar.

    Raises:
        ConfigError: an argument out of range.
    """

    input = "features"
    needs_label = True
    needs_bias = True

    def __init__(self, *, alpha: float = 1.0, beta: float = 1.0, semantics: str = "paper") -> None:
        super().__init__()
        check_at_least("alpha", alpha, 0, example=1.0)
        check_at_least("beta", beta, 0, example=1.0)
        check_choice("semantics", semantics, SEMANTICS)
        self.alpha, self.beta, self.semantics = alpha, beta, semantics
        if semantics == "released":
            self.exempt_from = {"image order": "which half of the pairs is used depends on it"}

    def per_batch(self, x: Tensor, label: Tensor, bias: Tensor) -> Tensor:
        x = unit(x)
        similarity = x @ x.T
        below = torch.ones_like(similarity, dtype=torch.bool).tril(-1)
        same_bias = bias[:, None] == bias
        conflicting = below & (label[:, None] == label) & ~same_bias
        if self.semantics == "released":
            conflicting = conflicting & (bias[:, None] < bias)
        return self.alpha * _orthogonal(similarity, same_bias, below) + self.beta * _parallel(similarity, conflicting)


def _orthogonal(similarity: Tensor, same_bias: Tensor, below: Tensor) -> Tensor:
    """R_perp. Every sample holds the sum of its bias, so the sum over samples divides by the size of the bias: the
    number of biases need not be known.
    """
    equal = below & same_bias
    sum_of_bias = same_bias.to(similarity.dtype) @ (similarity * equal).sum(1)
    return (sum_of_bias.abs() / same_bias.sum(1)).sum() / equal.sum().clamp(min=1)


def _parallel(similarity: Tensor, pairs: Tensor) -> Tensor:
    """R_par over the pairs; 0 if there are none."""
    mean = ((1 + similarity) / 2 * pairs).sum() / pairs.sum().clamp(min=1)
    return torch.where(pairs.any(), 1 - mean, 0)
