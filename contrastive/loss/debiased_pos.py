"""Debiased positive loss: the positive term is estimated from the data distribution and the negatives."""

import math

import torch
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.loss._debiased import Estimate, check_debiased_positive, debiased_positive
from contrastive.loss.base import SelfSupervisedLoss
from contrastive.pairs.pairs import Pairs, check_tau_plus, log_mean_exp
from contrastive.pairs.relations import other_class, other_image, same_class

SEMANTICS = ("paper", "released")


class DebiasedPos(SelfSupervisedLoss):
    """NT-Xent whose positives are debiased (Troeshestova & Isachenko 2023, eqs. 12, 15 and 16).

    With S = Σ_j e^{s_j} over the N = 2B - 2 negatives, p = log mean_m e^{v_m} over the M positives, c = 1/t the
    anchor with itself and τ⁻ = 1 - τ⁺:

        P = (S + e^p + e^c) / (N + 2),  P⁻ = S / N,  num = P - τ⁻ P⁻,  L_i = -log( num / (num + N τ⁺ P⁻) )

    and num is kept above its theoretical minimum τ⁺ e^{-1/t}. Computed as softplus(log N τ⁺ P⁻ - log num), where
    N (N + 2) num = 2 (τ⁺ B - 1) S + N (e^p + e^c): it can only fall below the floor when τ⁺ B < 1/2, which
    `check_batch` refuses when the program is built (< 1 with dropped false negatives, where e^c is absent).

    Args:
        temperature: t > 0.
        tau_plus: τ⁺ in (0, 1).
        aggregation: `pos_grouping` (eq. 15) averages M positives inside p; `loss_combination` (eq. 16 as coded)
            averages the two-view loss over all pairs of views.
        semantics: `paper`, as above; `released` is the code behind the paper's Figures 1-4 (its V2), which adds
            where the paper averages: num = τ⁺ S + e^{s+} + e^c, den = num + N τ⁺ S. V > 2 with pos_grouping is
            refused there.
        drop_false_negatives: the oracle, needs labels. Means stay over 2B and N. `paper` leaves false negatives and
            the anchor itself out of P; `released` keeps both there and only thins S in P⁻.

    Raises:
        ConfigError: an argument out of range, or V > 2 with released pos_grouping.
    """

    def __init__(
        self, *, temperature: float, tau_plus: float, aggregation: str, semantics: str, drop_false_negatives: bool
    ) -> None:
        super().__init__(temperature=temperature, aggregation=aggregation, drop_false_negatives=drop_false_negatives)
        check_tau_plus(tau_plus, zero=False)
        if semantics not in SEMANTICS:
            raise ConfigError(
                f"semantics must be one of {', '.join(SEMANTICS)}, got {semantics}: try loss.semantics=paper"
            )
        self.tau_plus = tau_plus
        self.semantics = semantics

    def check_batch(self, *, batch_size: int, n_views: int, has_label: bool, has_bias: bool) -> None:
        super().check_batch(batch_size=batch_size, n_views=n_views, has_label=has_label, has_bias=has_bias)
        if n_views != 2 and self.aggregation != "loss_combination" and self.semantics != "paper":
            raise ConfigError("DebiasedPos released code groups no positives: try loss.semantics=paper")

    def check_config(self, *, batch_size: int) -> None:
        if self.semantics == "paper":
            check_debiased_positive(tau_plus=self.tau_plus, batch_size=batch_size, own=not self.drop_false_negatives)

    def per_anchor(self, pairs: Pairs) -> Tensor:
        # one image has no negatives: the numerator is the whole denominator
        return self.estimate(pairs).loss() if pairs.n_images > 1 else pairs.positives[:, 0] * 0

    def estimate(self, pairs: Pairs) -> Estimate:
        n, oracle = 2 * pairs.n_images - 2, self.drop_false_negatives
        mass = pairs.log_sum_exp(other_class if oracle else other_image)
        if self.semantics == "paper":
            return debiased_positive(
                mass,
                log_mean_exp(pairs.positives),
                own=not oracle,
                n=n,
                tau_plus=self.tau_plus,
                temperature=self.temperature,
            )
        mate = pairs.positives[:, 0]
        numerator = torch.logaddexp(mate, torch.full_like(mate, 1 / self.temperature))
        numerator = torch.logaddexp(numerator, math.log(self.tau_plus) + mass)
        if oracle:
            numerator = torch.logaddexp(numerator, pairs.log_sum_exp(same_class))
        return Estimate(numerator, math.log(n * self.tau_plus) + mass, -math.inf)

    def diagnostics(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        return self.share_clamped(z, label, bias, lambda pairs: self.estimate(pairs).clamped())
