"""NT-Xent, the loss of SimCLR, and its oracle."""

import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.loss.base import SelfSupervisedLoss
from contrastive.pairs.pairs import Pairs
from contrastive.pairs.relations import other_class, other_image


class NTXent(SelfSupervisedLoss):
    """Pick the anchor's mate out of all views of the batch (Chen et al. 2020, eq. 1).

        L_i = -log( e^{s+} / (e^{s+} + Σ_j e^{s_j}) ) = softplus(log Σ_j e^{s_j} - s+)

    over the N = 2B - 2 views j of other images; one image alone has no negatives and costs 0. With
    drop_false_negatives the sum leaves out the anchor's own class (the unbiased oracle of Chuang et al. 2020).

    Args:
        temperature: t > 0.
        aggregation: `loss_combination` for V > 2; `pos_grouping` has no meaning here and is refused then.
        drop_false_negatives: needs labels.

    Raises:
        ConfigError: an argument out of range, or V > 2 with pos_grouping.

    The authors' TensorFlow code sums its two halves (2 × this); SupContrast multiplies by t / 0.07. Ours does neither.
    """

    def per_anchor(self, pairs: Pairs) -> Tensor:
        negatives = other_class if self.drop_false_negatives else other_image
        return F.softplus(pairs.log_sum_exp(negatives) - pairs.positives[:, 0])

    def check_batch(self, *, batch_size: int, n_views: int, has_label: bool, has_bias: bool) -> None:
        super().check_batch(batch_size=batch_size, n_views=n_views, has_label=has_label, has_bias=has_bias)
        if n_views != 2 and self.aggregation != "loss_combination":
            raise ConfigError("NTXent has no positive term to group: try loss.aggregation=loss_combination")
