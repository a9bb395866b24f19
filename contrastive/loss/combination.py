"""Weighted sum of the debiased-negative and the debiased-positive loss.

A weighted sum of the two debiased losses on the same pairs. alpha moves from one to the other.

:title: Debiased positives and negatives
:data: pairs, noisy pairs
:when: You compare the two corrections, or want both at once.
:memory: B
:checked: authors
:cite: troeshestova2023positives, chuang2020debiased
:related: debiased_neg, debiased_pos
"""

from torch import Tensor

from contrastive.errors import check_between, check_tau_plus
from contrastive.loss._debiased import (
    NegativeEstimate,
    PositiveEstimate,
    check_debiased_positive,
    check_positive_across,
    debiased_negatives,
    debiased_positive,
)
from contrastive.loss.base import SelfSupervisedLoss
from contrastive.pairs.pairs import Pairs, log_mean_exp


class Combination(SelfSupervisedLoss):
    """α L_neg + (1 - α) L_pos: DebiasedNeg and DebiasedPos on the same pairs.

    It is in the code of Troeshestova & Isachenko 2023, where no command reaches it, and not in the paper.

    Push: 1 + c e^{1/t - p} above the floor of g, c the share of debiased positives in the pull.

    Args:
        temperature: t > 0.
        tau_plus: τ⁺ in (0, 1).
        alpha: α in [0, 1].
        aggregation: as in both losses.
        drop_false_negatives: as in both losses.

    Shapes: z (B, V, D) → scalar.

    Raises:
        ConfigError: an argument out of range.

    >>> import torch
    >>> from contrastive import Combination
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> Combination()(z0, z1)
    tensor(0.1505)
    """

    picks_positive = True

    def __init__(
        self,
        *,
        temperature: float = 0.5,
        tau_plus: float = 0.1,
        alpha: float = 0.5,
        aggregation: str = "loss_combination",
        drop_false_negatives: bool = False,
    ) -> None:
        super().__init__(temperature=temperature, aggregation=aggregation, drop_false_negatives=drop_false_negatives)
        check_tau_plus(tau_plus, allow_zero=False)
        check_between("alpha", alpha, 0, 1, example=0.5)
        self.tau_plus = tau_plus
        self.alpha = alpha

    def check_config(self, *, batch_size: int) -> None:
        with_self = not self.drop_false_negatives
        check_debiased_positive(tau_plus=self.tau_plus, batch_size=batch_size, with_self=with_self)

    def check_across(self, *, n_negatives: int) -> None:
        check_positive_across(tau_plus=self.tau_plus, n_negatives=n_negatives)

    def per_anchor(self, pairs: Pairs) -> Tensor:
        negatives, positives = self.estimates(pairs)
        return self.alpha * negatives.loss(pairs.positive_logits[:, 0]) + (1 - self.alpha) * positives.loss()

    def estimates(self, pairs: Pairs) -> tuple[NegativeEstimate, PositiveEstimate]:
        """The estimates of DebiasedNeg and of DebiasedPos, from one log-sum-exp."""
        n, tau_plus, temperature = pairs.n_negatives, self.tau_plus, self.temperature
        log_mass, log_positive = pairs.log_sum_exp(self.negative_relation), log_mean_exp(pairs.positive_logits)
        with_self = not self.drop_false_negatives
        return (
            debiased_negatives(log_mass, log_positive, n=n, tau_plus=tau_plus, temperature=temperature),
            debiased_positive(
                log_mass,
                log_positive,
                with_self=with_self and pairs.has_self,
                n_own=2 if pairs.has_self else 1,
                n=n,
                tau_plus=tau_plus,
                temperature=temperature,
            ),
        )

    def log_negative_mass(self, pairs: Pairs) -> Tensor:
        return self.estimates(pairs)[0].floored()

    def log_positive(self, pairs: Pairs) -> Tensor:
        return self.estimates(pairs)[1].log_positive()

    def clamped(self, pairs: Pairs) -> Tensor:
        return self.estimates(pairs)[0].clamped()
