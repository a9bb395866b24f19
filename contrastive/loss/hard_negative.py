"""Hard-negative contrastive loss: debiased negatives, weighted by their similarity to the anchor.

Negatives count by how similar they are to the anchor. The debiasing of `debiased_neg` is applied on top.

:title: Hard negatives
:data: pairs
:when: Classes are fine-grained, so that the easy negatives teach nothing.
:memory: B
:checked: authors
:cite: robinson2021hard
:related: debiased_neg, decoupled, fnc
"""

import math

from torch import Tensor

from contrastive.errors import check_at_least
from contrastive.loss.debiased_neg import DebiasedNeg
from contrastive.pairs.pairs import Pairs


class HardNegative(DebiasedNeg):
    """Debiased negatives reweighted by their hardness (Robinson et al. 2021, eq. 4).

        S_β = N Σ_j e^{(1+β) s_j} / Σ_j e^{β s_j}   in place of   S = Σ_j e^{s_j}

    in the debiased-negative loss (Chuang et al. 2020), with gradients through the weights as in the authors' code.
    β = 0 is DebiasedNeg.

    Push: 1 above the floor and 0 on it.

    Args:
        temperature: t > 0.
        tau_plus: τ⁺ in [0, 1).
        beta: β >= 0.
        aggregation: as in DebiasedNeg.
        drop_false_negatives: the oracle, needs labels. For β > 0, S_β is N times a mean over the true negatives; at β =
            0, as in DebiasedNeg, the sum only loses terms, so β → 0 differs from it.

    Shapes: z (B, V, D) → scalar.

    Raises:
        ConfigError: an argument out of range.

    >>> import torch
    >>> from contrastive import HardNegative
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> HardNegative()(z0, z1)
    tensor(0.3630)
    """

    def __init__(
        self,
        *,
        temperature: float = 0.5,
        tau_plus: float = 0.1,
        beta: float = 1.0,
        aggregation: str = "loss_combination",
        drop_false_negatives: bool = False,
    ) -> None:
        super().__init__(
            temperature=temperature,
            tau_plus=tau_plus,
            aggregation=aggregation,
            drop_false_negatives=drop_false_negatives,
        )
        check_at_least("beta", beta, 0, example=1.0)
        self.beta = beta

    def log_mass(self, pairs: Pairs) -> Tensor:
        """(A,): log S_β."""
        log_mass = pairs.log_sum_exp(self.negative_relation, 1 + self.beta)
        if self.beta > 0:
            log_weights = pairs.log_sum_exp(self.negative_relation, self.beta)
            log_mass = log_mass - log_weights.masked_fill(log_weights == -math.inf, 0) + math.log(pairs.n_negatives)
        return log_mass
