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

from contrastive.errors import check_between
from contrastive.loss._debiased import NegativeEstimate, debiased_negatives
from contrastive.loss.debiased_pos import DebiasedPos
from contrastive.pairs.pairs import Pairs


class Combination(DebiasedPos):
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

    def __init__(
        self,
        *,
        temperature: float = 0.5,
        tau_plus: float = 0.1,
        alpha: float = 0.5,
        aggregation: str = "loss_combination",
        drop_false_negatives: bool = False,
    ) -> None:
        super().__init__(
            temperature=temperature,
            tau_plus=tau_plus,
            aggregation=aggregation,
            drop_false_negatives=drop_false_negatives,
        )
        check_between("alpha", alpha, 0, 1, example=0.5)
        self.alpha = alpha

    def per_anchor(self, pairs: Pairs) -> Tensor:
        terms = self.terms(pairs)
        negatives, positives = self.negatives(pairs, *terms), self.estimate_from(pairs, *terms)
        return self.alpha * negatives.loss(pairs.positive_logits[:, 0]) + (1 - self.alpha) * positives.loss()

    def negatives(self, pairs: Pairs, log_mass: Tensor, log_positive: Tensor) -> NegativeEstimate:
        """The estimate of DebiasedNeg from these terms."""
        n, tau_plus = pairs.n_negatives, self.tau_plus
        return debiased_negatives(log_mass, log_positive, n=n, tau_plus=tau_plus, temperature=self.temperature)

    def log_negative_mass(self, pairs: Pairs) -> Tensor:
        return self.negatives(pairs, *self.terms(pairs)).floored()

    def clamped(self, pairs: Pairs) -> Tensor:
        return self.negatives(pairs, *self.terms(pairs)).clamped()
