"""Debiased contrastive loss: corrects the negatives for the positives hidden among them.

Some negatives show the class of the anchor. Their expected share is subtracted from the sum over the negatives.

:title: Debiased negatives
:data: pairs
:when: The class prior tau_plus is roughly known and the temperature is high.
:memory: B
:checked: authors
:cite: chuang2020debiased
:related: debiased_pos, combination, hard_negative, fnc
"""

from torch import Tensor

from contrastive.errors import check_tau_plus
from contrastive.loss._debiased import NegativeEstimate, debiased_negatives
from contrastive.loss.base import SelfSupervisedLoss
from contrastive.pairs.pairs import Pairs, log_mean_exp


class DebiasedNeg(SelfSupervisedLoss):
    """NT-Xent with an estimate of the mass of the true negatives (Chuang et al. 2020, eqs. 7 and 8).

        g   = max( (mean_j e^{s_j} - τ⁺ mean_m e^{v_m}) / (1 - τ⁺),  e^{-1/t} )
        L_i = -log( e^{s+} / (e^{s+} + N g) ) = softplus(log N g - s+)

    with the N = 2B - 2 negatives j and the M positives v (v_1 = s+) of an anchor, in log space throughout. τ⁺ = 0 is
    NT-Xent. An anchor on the floor e^{-1/t} gets no gradient through g.

    Push: 1 above the floor and 0 on it, where an anchor is pulled alone.

    Args:
        temperature: t > 0.
        tau_plus: τ⁺ in [0, 1), the probability that a random image shares the anchor's class.
        aggregation: how views beyond the second are used; the authors' M is `pos_grouping` with V = M + 1.
        drop_false_negatives: the oracle; N is not reduced, as in the authors' code. Needs labels.

    Shapes: z (B, V, D) → scalar.

    Raises:
        ConfigError: an argument out of range.

    The authors' code forms e^{s} directly and overflows in float32 below t = 1/88. The estimate of positive-unlabeled
    learning (DeCL of Wang et al. 2024) is this one: if the anchor's class has the share α and a share c of it is known
    to be positive, the rest of the data has the share τ⁺ = (1 - c) α / (1 - c α) of that class (our derivation).

    >>> import torch
    >>> from contrastive import DebiasedNeg
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> DebiasedNeg()(z0, z1)
    tensor(0.1797)
    """

    picks_positive = True

    def __init__(
        self,
        *,
        temperature: float = 0.5,
        tau_plus: float = 0.1,
        aggregation: str = "loss_combination",
        drop_false_negatives: bool = False,
    ) -> None:
        super().__init__(temperature=temperature, aggregation=aggregation, drop_false_negatives=drop_false_negatives)
        check_tau_plus(tau_plus, allow_zero=True)
        self.tau_plus = tau_plus

    def per_anchor(self, pairs: Pairs) -> Tensor:
        return self.estimate(pairs).loss(pairs.positive_logits[:, 0])

    def estimate(self, pairs: Pairs) -> NegativeEstimate:
        """N g for each anchor."""
        n, log_positive = pairs.n_negatives, log_mean_exp(pairs.positive_logits)
        log_mass, tau_plus = self.log_mass(pairs), self.tau_plus
        return debiased_negatives(log_mass, log_positive, n=n, tau_plus=tau_plus, temperature=self.temperature)

    def log_mass(self, pairs: Pairs) -> Tensor:
        """(A,): log S of the negatives, before the estimate."""
        return pairs.log_sum_exp(self.negative_relation)

    def log_negative_mass(self, pairs: Pairs) -> Tensor:
        return self.estimate(pairs).floored()

    def clamped(self, pairs: Pairs) -> Tensor:
        return self.estimate(pairs).clamped()
