"""InfoNCE-anchor: NT-Xent that may also answer that none of the candidates is the positive.

Beside the candidates an anchor may answer "none of these". Similarities then estimate a density ratio itself, not a
multiple of it.

:title: InfoNCE with an anchor class
:data: pairs
:when: Similarities are to be read as density ratios; features do not gain by it, as its authors report.
:memory: B
:checked: formula
:cite: ryu2026anchor
:related: nt_xent, sigmoid
"""

import math

import torch
from torch import Tensor

from contrastive.errors import check_above
from contrastive.loss.base import SelfSupervisedLoss
from contrastive.pairs.pairs import Pairs


class InfoNCEAnchor(SelfSupervisedLoss):
    """Tell the positive among N negatives, and tell when there is none (Ryu et al. 2026, with the log score).

        L_i = [ N (log(ν + e^{s+} + S) - s+) + ν (log(ν + S) - log ν) ] / (N + ν),    S = Σ_j e^{s_j}

    over the N = 2B - 2 views j of other images. The added class of weight ν, "none of these", takes the freedom from
    e^s to be a multiple of the density ratio. Its samples are the negatives alone. ν → 0 is NT-Xent.

    Push: S / (ν + S) · (1 + ν (ν + e^{s+} + S) / (N (ν + S))), close to 1 in large batches.

    Args:
        temperature: t > 0.
        nu: ν > 0, the weight of the added class (1 in the paper's experiments).

    Shapes: z (B, V, D) → scalar.

    Raises:
        ConfigError: an argument out of range.

    The paper itself was not read: the objective is as a reader's note prints it, K / (K + ν) times the first term and
    ν / (K + ν) times the second, with K the number of negatives. There both classes have K samples; here the first one
    has the positive and all N negatives, as in NT-Xent.

    >>> import torch
    >>> from contrastive import InfoNCEAnchor
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> InfoNCEAnchor()(z0, z1)
    tensor(0.6396)
    """

    picks_positive = True

    def __init__(self, *, temperature: float = 0.5, nu: float = 1.0) -> None:
        super().__init__(temperature=temperature)
        check_above("nu", nu, 0, example=1.0)
        self.nu = nu

    def per_anchor(self, pairs: Pairs) -> Tensor:
        positive, n = pairs.positive_logits[:, 0], pairs.n_negatives
        mass = pairs.log_sum_exp(self.negative_relation)
        none = torch.logaddexp(mass, torch.full_like(mass, math.log(self.nu)))
        return (n * (torch.logaddexp(none, positive) - positive) + self.nu * (none - math.log(self.nu))) / (n + self.nu)
