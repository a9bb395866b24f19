"""Debiased positive loss: estimates the positive term from the data distribution and the negatives.

The positive term is replaced by an estimate of what true positives would give. With the anchor itself in the estimate
it repels more than it attracts.

:title: Debiased positives
:data: pairs, noisy pairs
:when: Nothing can be searched, or views may show another class; keep the temperature at 0.3 or above.
:memory: B
:checked: authors
:cite: troeshestova2023positives
:related: debiased_neg, combination, nt_xent, rince
"""

import math

import torch
from torch import Tensor

from contrastive.errors import ConfigError, check_choice, check_tau_plus
from contrastive.loss._debiased import (
    PositiveEstimate,
    check_debiased_positive,
    check_positive_across,
    debiased_positive,
)
from contrastive.loss.base import SEMANTICS, SelfSupervisedLoss
from contrastive.pairs.pairs import Pairs, log_mean_exp
from contrastive.pairs.relations import same_class


class DebiasedPos(SelfSupervisedLoss):
    """NT-Xent whose positives are debiased (Troeshestova & Isachenko 2023, eqs. 12 and 16).

    With S = Σ_j e^{s_j} over the N = 2B - 2 negatives, p = log mean_m e^{v_m} over the M positives, c = 1/t the
    anchor with itself and τ⁻ = 1 - τ⁺:

        P = (S + e^p + e^c) / (N + 2),  P⁻ = S / N,  num = P - τ⁻ P⁻,  L_i = -log( num / (num + N τ⁺ P⁻) )

    and num is kept above its theoretical minimum τ⁺ e^{-1/t}. Computed as softplus(log N τ⁺ P⁻ - log num), where
    N (N + 2) num = 2 (τ⁺ B - 1) S + N (e^p + e^c): num can only turn negative when τ⁺ B < 1/2, which `check_config`
    refuses (< 1 with dropped false negatives, where e^c is absent).

    Across sources an anchor is not among its candidates. Then P = (S + e^p) / (N + 1) without e^c, so that the loss
    repels as much as it attracts, and N = B - 1. num stays positive for τ⁺ (N + 1) >= 1. τ⁺ is the share of the
    anchor's class among the *candidates*: in the other source, or in the memory.

    Push: 1 + e^{1/t - p}, which is 1 + e^{1/t - s+} for one positive; 1 with with_self=false, across sources and for
    the oracle of `paper`; 1 + e^{1/t} / (e^{s+} + Σ e^{s_j}), j over the anchor's class, for that of `released`. On the
    floor of num an anchor is pushed alone.

    Args:
        temperature: t > 0.
        tau_plus: τ⁺ in (0, 1).
        aggregation: `pos_grouping` (§2.3, no equation number) averages the M positives inside p; `loss_combination`
            (eq. 16 as coded) averages the two-view loss over all pairs of views.
        semantics: `paper`, as above; `released` is the code behind the paper's Figures 1-4 (its V2), which adds
            where the paper averages: num = τ⁺ S + e^{s+} + e^c, den = num + N τ⁺ S. V > 2 with pos_grouping is
            refused there.
        with_self: whether P holds the anchor with itself, the constant e^c. With it the loss repels 1 + e^{1/t - s+}
            times as strongly as it attracts. Without it the two are equal, as in NT-Xent, and P has N + 1 samples.
        drop_false_negatives: the oracle, needs labels. Means are still divided by 2B and N. `paper` leaves false
            negatives and the anchor itself out of P, so that it repels as much as it attracts. `released` keeps both
            in P and only leaves them out of S in P⁻: it repels 1 + e^c / (e^{s+} + Σ e^{s_j}) times as strongly, j
            over the anchor's class. So a gain or loss of the oracle is also that of the lost repulsion.

    Shapes: z (B, V, D) → scalar.

    Raises:
        ConfigError: an argument out of range, or V > 2 with released pos_grouping.

    >>> import torch
    >>> from contrastive import DebiasedPos
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> DebiasedPos()(z0, z1)
    tensor(0.1212)
    """

    picks_positive = True

    def __init__(
        self,
        *,
        temperature: float = 0.5,
        tau_plus: float = 0.1,
        aggregation: str = "loss_combination",
        semantics: str = "paper",
        with_self: bool = True,
        drop_false_negatives: bool = False,
    ) -> None:
        super().__init__(temperature=temperature, aggregation=aggregation, drop_false_negatives=drop_false_negatives)
        check_tau_plus(tau_plus, allow_zero=False)
        check_choice("semantics", semantics, SEMANTICS)
        self.tau_plus = tau_plus
        self.semantics = semantics
        # The oracle of the paper's form drops the anchor from the sum, but still divides by N + 2.
        self.with_self = with_self and not (drop_false_negatives and semantics == "paper")
        self.n_own = 1 + with_self

    def check_batch(self, *, batch_size: int, n_views: int, has_label: bool, has_bias: bool) -> None:
        super().check_batch(batch_size=batch_size, n_views=n_views, has_label=has_label, has_bias=has_bias)
        if n_views != 2 and self.aggregation != "loss_combination" and self.semantics != "paper":
            raise ConfigError(
                "the released code of DebiasedPos has no pos_grouping: try loss.semantics=paper, or "
                "loss.aggregation=loss_combination"
            )

    def check_config(self, *, batch_size: int) -> None:
        if self.semantics == "paper":
            check_debiased_positive(
                tau_plus=self.tau_plus, batch_size=batch_size, with_self=self.with_self, n_own=self.n_own
            )

    def check_across(self, *, n_negatives: int) -> None:
        if self.semantics == "paper":
            check_positive_across(tau_plus=self.tau_plus, n_negatives=n_negatives)

    def per_anchor(self, pairs: Pairs) -> Tensor:
        return self.estimate(pairs).loss()

    def estimate(self, pairs: Pairs) -> PositiveEstimate:
        """num and N τ⁺ P⁻ for each anchor, up to a common factor."""
        return self.estimate_from(pairs, *self.terms(pairs))

    def terms(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """(A,) each: log S of the negatives, and p of the positives."""
        return pairs.log_sum_exp(self.negative_relation), log_mean_exp(pairs.positive_logits)

    def estimate_from(self, pairs: Pairs, log_mass: Tensor, log_positive: Tensor) -> PositiveEstimate:
        """The estimate from these terms."""
        if self.semantics == "released":
            return self._released(pairs, log_mass)
        return debiased_positive(
            log_mass,
            log_positive,
            with_self=self.with_self and pairs.has_self,
            n_own=self.n_own if pairs.has_self else 1,
            n=pairs.n_negatives,
            tau_plus=self.tau_plus,
            temperature=self.temperature,
        )

    def _released(self, pairs: Pairs, log_mass: Tensor) -> PositiveEstimate:
        log_numerator = pairs.positive_logits[:, 0]
        if self.with_self and pairs.has_self:
            log_numerator = torch.logaddexp(log_numerator, 1 / self.temperature + torch.zeros_like(log_numerator))
        log_numerator = torch.logaddexp(log_numerator, math.log(self.tau_plus) + log_mass)
        if self.drop_false_negatives:
            log_numerator = torch.logaddexp(log_numerator, pairs.log_sum_exp(same_class))
        log_scale = math.log(pairs.n_negatives * self.tau_plus)
        return PositiveEstimate(log_numerator, log_scale + log_mass, -math.inf, log_scale)

    def log_positive(self, pairs: Pairs) -> Tensor:
        return self.estimate(pairs).log_positive()

    def clamped(self, pairs: Pairs) -> Tensor:
        return self.estimate(pairs).clamped()
