"""Supervised contrastive learning.

Every image of the anchor's class is a positive. All others are negatives.

:title: Supervised contrastive loss
:data: labels
:when: You have labels and want features rather than a classifier.
:memory: B
:checked: authors
:cite: khosla2020supcon
:related: eps_supcon, soft_supcon, cross_entropy, nt_xent
"""

import math

import torch
from torch import Tensor

from contrastive.errors import check_choice
from contrastive.loss.base import SupervisedContrastiveLoss
from contrastive.pairs.pairs import Pairs
from contrastive.pairs.relations import any_other, positive

FORMS = ("out", "in")


class SupCon(SupervisedContrastiveLoss):
    """Every image of the anchor's class is a positive (Khosla et al. 2020, eqs. 2 and 3).

        out: L_i = lse_{a≠i} s_a - mean_p s_p        in: L_i = lse_{a≠i} s_a - (lse_p s_p - log |P|)

    L_in <= L_out. An anchor without positives contributes 0 and stays in the mean. Across sources P is the class in the
    other source, including the anchor's own image (UniCL, Yang et al. 2022, eq. 3, with the mean of both directions).

    Push: 1; what positives repel in the denominator is taken off their pull.

    Args:
        temperature: t > 0.
        form: `out` (the paper's choice) or `in`.

    Shapes: z (B, V, D), label (B,) → scalar.

    Raises:
        ConfigError: an argument out of range.

    The authors' code has only `out` and multiplies by t / 0.07.

    >>> import torch
    >>> from contrastive import SupCon
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> SupCon()(z0, z1, torch.tensor([0, 1, 1]))
    tensor(1.6185)
    """

    def __init__(self, *, temperature: float = 0.5, form: str = "out") -> None:
        super().__init__(temperature=temperature)
        check_choice("form", form, FORMS)
        self.form = form

    def per_anchor(self, pairs: Pairs) -> Tensor:
        count = pairs.count(positive)
        has_positive = count > 0
        if self.form == "out":
            positive_term = pairs.mean_logit(positive)
        else:
            positive_term = torch.where(has_positive, pairs.log_sum_exp(positive), 0) - count.clamp(min=1).log()
        log_denominator = pairs.log_sum_exp(any_other)
        return torch.where(has_positive & (log_denominator > -math.inf), log_denominator - positive_term, 0)
