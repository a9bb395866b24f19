"""Decoupled contrastive loss: NT-Xent without the positive in the denominator.

The positive leaves the denominator of NT-Xent. A pair that is already close is still pulled.

:title: Decoupled contrastive learning
:data: pairs
:when: The batch is small. "DCL" of Yeh et al. is this loss, not the debiased one.
:memory: B
:checked: authors
:cite: yeh2022decoupled
:related: nt_xent, dhel, sogclr
"""

import math

import torch
from torch import Tensor

from contrastive.errors import check_above
from contrastive.loss.base import SelfSupervisedLoss
from contrastive.pairs.pairs import Pairs, log_mean_exp


class Decoupled(SelfSupervisedLoss):
    """NT-Xent whose denominator leaves out the positive (Yeh et al. 2022, eqs. 5 and 6); "DCL" there.

        L_i = -w_i s+ + log Σ_j e^{s_j},    w_i = 1, or 2 - e^{c_i/σ} / mean_k e^{c_k/σ}

    over the N = 2B - 2 views j of other images, with c_k the cosine of the two views of image k. In NT-Xent the
    gradients of an anchor vanish as its positive comes close; here they do not. Not to be confused with the *debiased*
    loss of Chuang et al. 2020, which is also called DCL (`loss=debiased_neg`).

    Push: 1; of the weighted form 1 / (w_i - (2 - w_i) c_i / σ), mean_k held constant.

    Args:
        temperature: t > 0.
        sigma: σ > 0 of the weighted form (DCLW, 0.5 in the paper); None = the plain one.
        drop_false_negatives: the oracle; needs labels.

    Shapes: z (B, V, D) → scalar.

    Raises:
        ConfigError: an argument out of range.

    The same as the code that the authors' repository points to. That code lets the gradient through w, and adds
    log 1e-45 to the logits that are left out here. Its training adds the means of both views, which is twice this loss.

    >>> import torch
    >>> from contrastive import Decoupled
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> Decoupled()(z0, z1)
    tensor(-0.8709)
    """

    picks_positive = True

    def __init__(
        self, *, temperature: float = 0.5, sigma: float | None = None, drop_false_negatives: bool = False
    ) -> None:
        super().__init__(temperature=temperature, drop_false_negatives=drop_false_negatives)
        if sigma is not None:
            check_above("sigma", sigma, 0, example=0.5)
        self.sigma = sigma

    def per_anchor(self, pairs: Pairs) -> Tensor:
        mass, positive = pairs.log_sum_exp(self.negative_relation), pairs.positive_logits[:, 0]
        if self.drop_false_negatives or pairs.has_equal_ids:  # an anchor whose class is alone is pushed from nothing
            mass = torch.where(mass > -math.inf, mass, 0)
        if self.sigma is None:
            return mass - positive
        log_mean = log_mean_exp(pairs.positive_cosines / self.sigma)
        weight = 2 - (positive * (self.temperature / self.sigma) - log_mean).exp()
        return mass - weight * positive
