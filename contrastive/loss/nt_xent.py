"""NT-Xent, the loss of SimCLR, and its oracle.

Each view picks the other view of its image among all views of the batch. It is a softmax cross-entropy over cosine
similarities.

:title: NT-Xent (SimCLR)
:data: pairs, two encoders
:when: Begin here, and search temperature and learning rate before anything else.
:memory: B
:checked: authors
:cite: chen2020simclr, sohn2016npair
:related: decoupled, debiased_neg, debiased_pos, sigmoid, supcon
"""

import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.loss.base import SelfSupervisedLoss
from contrastive.pairs.pairs import Pairs


class NTXent(SelfSupervisedLoss):
    """Pick the other view of the anchor's image among all views of the batch (Chen et al. 2020, eq. 1).

        L_i = -log( e^{s+} / (e^{s+} + Σ_j e^{s_j}) ) = softplus(log Σ_j e^{s_j} - s+)

    over the N = 2B - 2 views j of other images. A single image has no negatives and contributes 0. With
    drop_false_negatives the sum leaves out the anchor's own class (the unbiased oracle of Chuang et al. 2020).

    Push: 1, whatever the temperature.

    Args:
        temperature: t > 0.
        aggregation: `loss_combination`; `pos_grouping` is not defined here and is refused for V > 2.
        drop_false_negatives: needs labels.

    Shapes: z (B, V, D) → scalar.

    Raises:
        ConfigError: an argument out of range, or V > 2 with pos_grouping.

    Across sources it is the loss of CLIP. The authors' TensorFlow code sums its two halves (2 × this); SupContrast
    multiplies by t / 0.07. Ours does neither.

    >>> import torch
    >>> from contrastive import NTXent
    >>> z0, z1 = torch.eye(3), torch.eye(3)  # two views (B, D) of three images, as different as can be
    >>> NTXent(temperature=0.5)(z0, z1)  # log(1 + 4 e^-2)
    tensor(0.4327)
    >>> NTXent(temperature=0.5)(z0, z1, across="both")  # of two sources: log(1 + 2 e^-2)
    tensor(0.2395)
    """

    picks_positive = True

    def per_anchor(self, pairs: Pairs) -> Tensor:
        return F.softplus(self.log_negative_mass(pairs) - pairs.positive_logits[:, 0])

    def check_batch(self, *, batch_size: int, n_views: int, has_label: bool, has_bias: bool) -> None:
        super().check_batch(batch_size=batch_size, n_views=n_views, has_label=has_label, has_bias=has_bias)
        if n_views != 2 and self.aggregation != "loss_combination":
            raise ConfigError("NTXent has no positive term to group: try loss.aggregation=loss_combination")
