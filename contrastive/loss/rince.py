"""Robust InfoNCE, for positive pairs that may be wrong.

Positive pairs that look wrong weigh less. q moves from InfoNCE at 0 to a symmetric, fully robust loss at 1.

:title: Robust InfoNCE
:data: noisy pairs
:when: A known part of the pairs does not belong together.
:memory: B
:checked: authors
:cite: chuang2022rince
:related: nt_xent, debiased_pos, gce
"""

import math

from torch import Tensor

from contrastive.errors import ConfigError, check_between
from contrastive.loss.base import SelfSupervisedLoss
from contrastive.pairs.pairs import Pairs

MAX_EXPONENT = 80  # e^80 is below the largest float32


class RINCE(SelfSupervisedLoss):
    """InfoNCE that gives less weight to a positive pair that looks wrong (Chuang et al. 2022, eq. 5).

        L_i = -e^{q s+} / q + (λ (e^{s+} + Σ_j e^{s_j}))^q / q

    over the N = 2B - 2 views j of other images. For q → 0 its gradient is that of NT-Xent. At q = 1 it is a symmetric
    loss, which is robust to noise in the positives: -(1 - λ) e^{s+} + λ S with S = Σ_j e^{s_j}. So λ weights repulsion
    against attraction: at q = 1 an anchor repels λ S / ((1 - λ) e^{s+}) times as strongly as it attracts. It is made
    for noise as in `noise_frac`.

    Push: λ^q E^{q-1} S / (e^{q s+} - λ^q E^{q-1} e^{s+}) with E = e^{s+} + S; 1 for q towards 0, λ S / ((1 - λ) e^{s+})
    at q = 1.

    Args:
        temperature: t > 0.
        q: in (0, 1].
        lam: λ in (0, 1], the weight of repulsion against attraction.
        drop_false_negatives: the oracle; needs labels.

    Shapes: z (B, V, D) → scalar.

    Raises:
        ConfigError: an argument out of range, or e^{q/t} beyond float32.

    The same as the authors' code for SimCLR (q = 0.1, λ = 0.01 on its command line).

    >>> import torch
    >>> from contrastive import RINCE
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> RINCE()(z0, z1)
    tensor(-4.0842)
    """

    def __init__(
        self, *, temperature: float = 0.5, q: float = 0.1, lam: float = 0.01, drop_false_negatives: bool = False
    ) -> None:
        super().__init__(temperature=temperature, drop_false_negatives=drop_false_negatives)
        check_between("q", q, 0, 1, exclude=(0,), example=0.1)
        check_between("lam", lam, 0, 1, exclude=(0,), example=0.01)
        if q / temperature > MAX_EXPONENT:
            raise ConfigError(f"RINCE at q={q:g}, temperature={temperature:g} overflows: try temperature={q / 40:g}")
        self.q, self.lam = q, lam

    def per_anchor(self, pairs: Pairs) -> Tensor:
        positive = pairs.positive_logits[:, 0]
        everything = positive.logaddexp(pairs.log_sum_exp(self.negative_relation))
        pull = (self.q * positive).exp()
        push = (self.q * (everything + math.log(self.lam))).exp()
        return (push - pull) / self.q
