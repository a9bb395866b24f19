"""Debiased contrastive loss: the negatives are corrected for the positives hidden among them."""

from torch import Tensor

from contrastive.loss._debiased import NegativeMass, debiased_negatives
from contrastive.loss.base import SelfSupervisedLoss
from contrastive.pairs.pairs import Pairs, check_tau_plus, log_mean_exp
from contrastive.pairs.relations import other_class, other_image


class DebiasedNeg(SelfSupervisedLoss):
    """NT-Xent with an estimate of the true negatives' mass (Chuang et al. 2020, eqs. 7 and 8).

        g   = max( (mean_j e^{s_j} - τ⁺ mean_m e^{v_m}) / (1 - τ⁺),  e^{-1/t} )
        L_i = -log( e^{s+} / (e^{s+} + N g) ) = softplus(log N g - s+)

    with the N = 2B - 2 negatives j and the M positives v (v_1 = s+) of an anchor, in log space throughout. τ⁺ = 0 is
    NT-Xent. An anchor on the floor e^{-1/t} gets no gradient through g.

    Args:
        temperature: t > 0.
        tau_plus: τ⁺ in [0, 1), the probability that a random image shares the anchor's class.
        aggregation: what views beyond the second are for; the authors' M is `pos_grouping` with V = M + 1.
        drop_false_negatives: the oracle; N is not reduced, as in the authors' code. Needs labels.

    Raises:
        ConfigError: an argument out of range.

    The authors' code forms e^{s} directly and overflows in float32 below t = 1/88.
    """

    def __init__(self, *, temperature: float, tau_plus: float, aggregation: str, drop_false_negatives: bool) -> None:
        super().__init__(temperature=temperature, aggregation=aggregation, drop_false_negatives=drop_false_negatives)
        check_tau_plus(tau_plus, zero=True)
        self.tau_plus = tau_plus

    def per_anchor(self, pairs: Pairs) -> Tensor:
        mate = pairs.positives[:, 0]
        return self.estimate(pairs).loss(mate) if pairs.n_images > 1 else mate * 0  # one image has no negatives

    def estimate(self, pairs: Pairs) -> NegativeMass:
        mass = pairs.log_sum_exp(other_class if self.drop_false_negatives else other_image)
        return debiased_negatives(
            mass,
            log_mean_exp(pairs.positives),
            n=2 * pairs.n_images - 2,
            tau_plus=self.tau_plus,
            temperature=self.temperature,
        )

    def log_negative_mass(self, pairs: Pairs) -> Tensor:
        mass, floor = self.estimate(pairs)
        return mass.clamp(min=floor)

    def diagnostics(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        return self.share_clamped(z, label, bias, lambda pairs: self.estimate(pairs).clamped())
