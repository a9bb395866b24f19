"""Soft bias-contrastive loss (SoftCon).

As the bias-contrastive loss, without bias labels. A positive counts by how little the features of a biased model say
that it resembles the anchor.

:title: Soft bias-contrastive loss (SoftCon)
:data: bias unknown
:when: The bias is unknown; train a biased model first and name it by `bias_from=RUN`.
:memory: B + F N
:checked: authors
:cite: hong2021unbiased
:related: bias_contrastive, soft_supcon, gce
"""

import torch
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.loss.bias_contrastive import TINY, BiasContrastive
from contrastive.pairs.pairs import Pairs, add_inside_log
from contrastive.pairs.relations import any_other, same_class
from contrastive.types import Split


class SoftCon(BiasContrastive):
    """BC without bias labels: positives with another bias than the anchor weigh more (Hong & Yang 2021, eq. 6).

        L_i = log( Σ_{a≠i} e^{s_a} + 1e-9 e^{1/t} ) - Σ_p w_p s_p / Σ_p w_p,    w_p = 1 - cos(f_i, f_p)

    over p of the anchor's class; f are the features of a model that relies on the bias, from `bias_from=RUN`. Another
    view of the anchor's image is not a positive. An anchor whose weights are all 0 contributes 0. Outside a training
    only bias labels are known. Then w_p is 1 where they differ and 0 elsewhere, which is BC.

    Push: Σ_j e^{s_j} / (Σ_j e^{s_j} + 1e-9 e^{1/t}) over the j of other classes, 1 but for the tiny term.

    Args:
        temperature: t > 0 (0.07 in the paper).

    Shapes: z (B, V, D), label (B,), bias (B,) → scalar.

    Raises:
        ConfigError: an argument out of range, or training data without such features.

    The authors add 0.01 times a cross-entropy on a uniform batch, and draw images that are unlike their class more
    often: `experiment=hong_yang_softcon`.

    >>> import torch
    >>> from contrastive import SoftCon
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> label, bias = torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1])
    >>> SoftCon()(z0, z1, label, bias)
    tensor(2.1033)
    """

    reads_index = True

    def __init__(self, *, temperature: float = 0.5) -> None:
        super().__init__(temperature=temperature)
        self.features: Tensor | None
        self.register_buffer("features", None, persistent=False)  # (N, F), made again from the run that it came from

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        if train.bias_features is None:
            raise ConfigError(
                "SoftCon needs a model that relies on the bias: try bias_from=RUN, or loss=bias_contrastive"
            )
        self.features = train.bias_features

    def per_anchor(self, pairs: Pairs) -> Tensor:
        if self.features is None or self.index is None:
            return super().per_anchor(pairs)
        mean = pairs.mean_logit_of_unlike(same_class, self.features[self.index])
        log_denominator = add_inside_log(pairs.log_sum_exp(any_other), TINY, self.temperature)
        return torch.where(mean.isinf(), 0, log_denominator - mean)
