"""EnD: entangle the class, disentangle the bias."""

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.loss.base import Loss
from contrastive.types import Split

SEMANTICS = ("paper", "released")


class EnD(Loss):
    """alpha · R_perp + beta · R_par on unit features (Tartaglione et al. 2021, eqs. 5 and 7).

        R_perp = Σ_b |Σ_{i>j: b_i=b_j=b} z_i·z_j| / (number of pairs of equal bias)
        R_par  = 1 - mean (1 + z_i·z_j) / 2 over i > j of the same class and different bias

    Every view is a sample; an empty set costs 0.

    Args:
        alpha, beta: weights of at least 0.
        semantics: `paper` takes all pairs of R_par; `released` only those with b_i < b_j, about half of them.

    Raises:
        ConfigError: an argument out of range.
    """

    input = "features"
    needs_label = True
    needs_bias = True

    def __init__(self, *, alpha: float, beta: float, semantics: str) -> None:
        super().__init__()
        if not alpha >= 0 or not beta >= 0:
            raise ConfigError(
                f"alpha and beta must be at least 0, got {alpha} and {beta}: "
                "try regularizer.alpha=1.0 regularizer.beta=1.0"
            )
        if semantics not in SEMANTICS:
            raise ConfigError(
                f"semantics must be one of {', '.join(SEMANTICS)}, got {semantics}: try regularizer.semantics=paper"
            )
        self.alpha, self.beta, self.semantics = alpha, beta, semantics
        self.n_biases = 0  # known from `prepare` on, so that no step has to ask the device
        if semantics == "released":
            self.exempt_from = {"image order": "which half of the pairs is kept depends on it"}

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        assert train.bias is not None
        self.n_biases = int(train.bias.max()) + 1

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
        assert label is not None and bias is not None
        label, bias = (value.repeat_interleave(z.shape[1]) for value in (label, bias))
        z = F.normalize(z, dim=-1).flatten(0, 1)
        below = torch.ones(len(z), len(z), dtype=torch.bool, device=z.device).tril(-1)
        similarity = z @ z.T
        equal = below & (bias[:, None] == bias)
        per_bias = z.new_zeros(self.n_biases or int(bias.max()) + 1).index_add(0, bias, (similarity * equal).sum(1))
        orthogonal = per_bias.abs().sum() / equal.sum().clamp(min=1)
        pairs = below & (label[:, None] == label) & (bias[:, None] != bias)
        if self.semantics == "released":
            pairs = pairs & (bias[:, None] < bias)
        mean = ((1 + similarity) / 2 * pairs).sum() / pairs.sum().clamp(min=1)
        parallel = torch.where(pairs.any(), 1 - mean, 0)
        return self.alpha * orthogonal + self.beta * parallel
