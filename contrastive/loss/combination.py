"""Debiased negatives and debiased positives, mixed."""

from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.loss._debiased import (
    Estimate,
    NegativeMass,
    check_debiased_positive,
    debiased_negatives,
    debiased_positive,
)
from contrastive.loss.base import SelfSupervisedLoss
from contrastive.pairs.pairs import Pairs, check_tau_plus, log_mean_exp
from contrastive.pairs.relations import other_class, other_image


class Combination(SelfSupervisedLoss):
    """α L_neg + (1 - α) L_pos: DebiasedNeg and DebiasedPos on the same pairs.

    In the code of Troeshestova & Isachenko 2023, though their command line cannot reach it; not in the paper.

    Args:
        temperature: t > 0. tau_plus: τ⁺ in (0, 1). alpha: α in [0, 1].
        aggregation, drop_false_negatives: as in both losses.

    Raises:
        ConfigError: an argument out of range.
    """

    def __init__(
        self, *, temperature: float, tau_plus: float, alpha: float, aggregation: str, drop_false_negatives: bool
    ) -> None:
        super().__init__(temperature=temperature, aggregation=aggregation, drop_false_negatives=drop_false_negatives)
        check_tau_plus(tau_plus, zero=False)
        if not 0 <= alpha <= 1:
            raise ConfigError(f"alpha must lie in [0, 1], got {alpha}: try loss.alpha=0.5")
        self.tau_plus = tau_plus
        self.alpha = alpha

    def check_config(self, *, batch_size: int) -> None:
        check_debiased_positive(tau_plus=self.tau_plus, batch_size=batch_size, own=not self.drop_false_negatives)

    def per_anchor(self, pairs: Pairs) -> Tensor:
        mate = pairs.positives[:, 0]
        if pairs.n_images == 1:
            return mate * 0
        negatives, share = self.estimates(pairs)
        return self.alpha * negatives.loss(mate) + (1 - self.alpha) * share.loss()

    def estimates(self, pairs: Pairs) -> tuple[NegativeMass, Estimate]:
        n, oracle = 2 * pairs.n_images - 2, self.drop_false_negatives
        mass = pairs.log_sum_exp(other_class if oracle else other_image)
        positive = log_mean_exp(pairs.positives)
        return (
            debiased_negatives(mass, positive, n=n, tau_plus=self.tau_plus, temperature=self.temperature),
            debiased_positive(
                mass, positive, own=not oracle, n=n, tau_plus=self.tau_plus, temperature=self.temperature
            ),
        )

    def log_negative_mass(self, pairs: Pairs) -> Tensor:
        mass, floor = self.estimates(pairs)[0]
        return mass.clamp(min=floor)

    def diagnostics(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        return self.share_clamped(z, label, bias, lambda pairs: self.estimates(pairs)[0].clamped())
