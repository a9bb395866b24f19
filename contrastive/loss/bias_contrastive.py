"""Bias-contrastive loss (BC).

Positives share the class but not the bias. What the bias has in common is thus no help.

:title: Bias-contrastive loss (BC)
:data: labels and bias labels
:when: Bias labels are known, and a few images of each class contradict the bias.
:memory: B
:checked: authors
:cite: hong2021unbiased
:related: softcon, bias_balanced, eps_supinfonce
"""

import torch
from torch import Tensor

from contrastive.loss.base import SupervisedContrastiveLoss
from contrastive.pairs.pairs import Pairs, add_inside_log
from contrastive.pairs.relations import any_other, conflicting_positive

TINY = 1e-9


class BiasContrastive(SupervisedContrastiveLoss):
    """SupCon whose positives share the class but not the bias (Hong & Yang 2021, eq. 4).

        L_i = log( Σ_{a≠i} e^{s_a} + 1e-9 e^{1/t} ) - mean_{p: y_p = y_i, b_p ≠ b_i} s_p

    The tiny term is the authors' and matters only below t = 0.05. An anchor without such a positive contributes 0.

    Push: Σ_j e^{s_j} / (Σ_j e^{s_j} + 1e-9 e^{1/t}) over the j of other classes, 1 but for the tiny term.

    Args:
        temperature: t > 0 (0.07 in the paper).

    Shapes: z (B, V, D), label (B,), bias (B,) → scalar.

    Raises:
        ConfigError: an argument out of range.

    >>> import torch
    >>> from contrastive import BiasContrastive
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> label, bias = torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1])
    >>> BiasContrastive()(z0, z1, label, bias)
    tensor(2.1033)
    """

    needs_bias = True
    takes = ("both", "first", "keys")
    positive_relation = staticmethod(conflicting_positive)

    def per_anchor(self, pairs: Pairs) -> Tensor:
        log_sum = pairs.log_sum_exp(any_other)
        log_denominator = add_inside_log(log_sum, TINY, self.temperature)
        has_positive = pairs.count(conflicting_positive) > 0
        return torch.where(has_positive, log_denominator - pairs.mean_logit(conflicting_positive), 0)
