"""Hard-negative contrastive loss: debiased negatives, the near ones weighing more."""

import math

from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.loss._debiased import NegativeMass, debiased_negatives
from contrastive.loss.base import SelfSupervisedLoss
from contrastive.pairs.pairs import Pairs, check_tau_plus, log_mean_exp
from contrastive.pairs.relations import other_class, other_image


class HardNegative(SelfSupervisedLoss):
    """Debiased negatives reweighted by their hardness (Robinson et al. 2021, eq. 4).

        S_β = N Σ_j e^{(1+β) s_j} / Σ_j e^{β s_j}   in place of   S = Σ_j e^{s_j}

    in the debiased-negative loss (Chuang et al. 2020), with gradients through the weights as in the authors' code.
    β = 0 is DebiasedNeg.

    Args:
        temperature: t > 0. tau_plus: τ⁺ in [0, 1). beta: β >= 0.
        aggregation, drop_false_negatives: as in DebiasedNeg.

    Raises:
        ConfigError: an argument out of range.
    """

    def __init__(
        self, *, temperature: float, tau_plus: float, beta: float, aggregation: str, drop_false_negatives: bool
    ) -> None:
        super().__init__(temperature=temperature, aggregation=aggregation, drop_false_negatives=drop_false_negatives)
        check_tau_plus(tau_plus, zero=True)
        if not beta >= 0:
            raise ConfigError(f"beta must be at least 0, got {beta}: try loss.beta=1.0")
        self.tau_plus = tau_plus
        self.beta = beta

    def per_anchor(self, pairs: Pairs) -> Tensor:
        mate = pairs.positives[:, 0]
        return self.estimate(pairs).loss(mate) if pairs.n_images > 1 else mate * 0

    def estimate(self, pairs: Pairs) -> NegativeMass:
        n = 2 * pairs.n_images - 2
        relation = other_class if self.drop_false_negatives else other_image
        mass = pairs.log_sum_exp(relation, 1 + self.beta)
        if self.beta > 0:
            weights = pairs.log_sum_exp(relation, self.beta)
            mass = mass - weights.masked_fill(weights == -math.inf, 0) + math.log(n)
        return debiased_negatives(
            mass, log_mean_exp(pairs.positives), n=n, tau_plus=self.tau_plus, temperature=self.temperature
        )

    def log_negative_mass(self, pairs: Pairs) -> Tensor:
        mass, floor = self.estimate(pairs)
        return mass.clamp(min=floor)

    def diagnostics(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        return self.share_clamped(z, label, bias, lambda pairs: self.estimate(pairs).clamped())
