"""False negative cancellation: negatives that look like the anchor are left out.

The k negatives most similar to the anchor are taken for false and leave the loss. The rest is NT-Xent.

:title: False negative cancellation
:data: pairs
:when: Few classes, so that each batch has many images of the anchor's class.
:memory: B
:checked: formula
:cite: huynh2022fnc
:related: glofnd, debiased_neg, hard_negative
"""

from torch import Tensor

from contrastive.errors import ConfigError, check_at_least
from contrastive.loss.nt_xent import NTXent
from contrastive.pairs.pairs import Pairs


class FNC(NTXent):
    """NT-Xent without the k negatives that are most similar to the anchor (after Huynh et al. 2022, elimination).

        L_i = softplus(log Σ_j e^{s_j} - s+)

    over the N = 2B - 2 views j of other images, without the k of largest s_j, which may show the anchor's class. k = 0
    is NT-Xent. Debiased negatives correct the sum for the expected false negatives; this loss tries to find them.

    Push: 1.

    Args:
        temperature: t > 0.
        top_k: k >= 0; at most N - 1 are left out.

    Shapes: z (B, V, D) → scalar.

    Raises:
        ConfigError: an argument out of range, or a batch that k would empty.

    The paper takes the similarity to a support set of further views of the anchor, here it is that to the anchor. The
    paper's attraction, which treats them as positives, is not here.

    >>> import torch
    >>> from contrastive import FNC
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> FNC(top_k=1)(z0, z1)
    tensor(0.1809)
    """

    def __init__(self, *, temperature: float = 0.5, top_k: int = 10) -> None:
        super().__init__(temperature=temperature)
        check_at_least("top_k", top_k, 0, example=10)
        self.top_k = top_k

    def check_config(self, *, batch_size: int) -> None:
        if self.top_k > 2 * batch_size - 3:
            raise ConfigError(
                f"loss.top_k={self.top_k} leaves none of the {2 * batch_size - 2} negatives: "
                f"try loss.top_k={max(0, batch_size // 10)}"
            )

    def log_negative_mass(self, pairs: Pairs) -> Tensor:
        k = min(self.top_k, pairs.n_negatives - 1)
        if k == 0:
            return pairs.log_sum_exp(self.negative_relation)
        return pairs.repel(pairs.log_sum_exp_but_top(self.negative_relation, k))
