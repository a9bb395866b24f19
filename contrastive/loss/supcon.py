"""Supervised contrastive learning."""

import math

import torch
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.loss.base import SupervisedContrastiveLoss
from contrastive.pairs.pairs import Pairs
from contrastive.pairs.relations import any_other, positive

FORMS = ("out", "in")


class SupCon(SupervisedContrastiveLoss):
    """Every image of the anchor's class is a positive (Khosla et al. 2020, eqs. 2 and 3).

        out: L_i = lse_{a≠i} s_a - mean_p s_p        in: L_i = lse_{a≠i} s_a - (lse_p s_p - log |P|)

    L_in <= L_out. An anchor without positives contributes 0 and stays in the mean.

    Args:
        temperature: t > 0. form: `out` (the paper's choice) or `in`.

    Raises:
        ConfigError: an argument out of range.

    The authors' code has only `out` and multiplies by t / 0.07.
    """

    def __init__(self, *, temperature: float, form: str) -> None:
        super().__init__(temperature=temperature)
        if form not in FORMS:
            raise ConfigError(f"form must be one of {', '.join(FORMS)}, got {form}: try loss.form=out")
        self.form = form

    def per_anchor(self, pairs: Pairs) -> Tensor:
        count = pairs.count(positive)
        found = count > 0
        if self.form == "out":
            near = pairs.mean_logit(positive)
        else:
            near = torch.where(found, pairs.log_sum_exp(positive), 0) - count.clamp(min=1).log()
        everything = pairs.log_sum_exp(any_other)
        return torch.where(found & (everything > -math.inf), everything - near, 0)
