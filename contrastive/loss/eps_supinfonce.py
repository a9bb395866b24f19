"""ε-SupInfoNCE: supervised contrastive learning with a margin and without non-contrastive terms.

Each positive stands by itself against the negatives, by a margin ε. Other positives are not in its denominator.

:title: ε-SupInfoNCE
:data: labels, labels and bias labels
:when: Labels; with `regularizer=fairkl` also bias labels.
:memory: B
:checked: authors
:cite: barbano2023unbiased
:related: eps_supcon, supcon, bias_contrastive
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import ConfigError, check_choice
from contrastive.loss.eps_supcon import BASE_TEMPERATURE, TINY, EpsSupCon
from contrastive.loss.supcon import FORMS
from contrastive.pairs.pairs import Pairs, add_inside_log
from contrastive.pairs.relations import different_class, positive


class EpsSupInfoNCE(EpsSupCon):
    """Each positive against the negatives alone, with a margin ε (Barbano et al. 2023, eq. 11).

        L_i = mean_p [ log( e^{s_p - ε} + Σ_{j: y_j≠y_i} e^{s_j} ) - s_p ] = mean_p softplus(A - s_p + ε) - ε

    ε = 0 is SupInfoNCE. An anchor without positives contributes 0; without negatives every term is -ε.

    Push: 1; `released` in form `out` Σ_j e^{s_j} / (Σ_j e^{s_j} + 1e-6 e^{1/t}), below 1.

    Args:
        temperature: t > 0.
        epsilon: ε >= 0, in units of logits: a margin of ε t between cosines.
        form: `out`, as above; `in` exists only as released code:
            L_i = -log( Σ_p e^{s_p} / ( e^{-ε} mean_p e^{s_p} + Σ_j e^{s_j} ) ).
        semantics: `paper`, as above; `released` multiplies by t / 0.07 and, in form `out`, adds 1e-6 e^{1/t} to every
            denominator.

    Shapes: z (B, V, D), label (B,) → scalar.

    Raises:
        ConfigError: an argument out of range, or form `in` with semantics `paper`.

    >>> import torch
    >>> from contrastive import EpsSupInfoNCE
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> EpsSupInfoNCE()(z0, z1, torch.tensor([0, 1, 1]))
    tensor(0.8851)
    """

    def __init__(
        self, *, temperature: float = 0.5, epsilon: float = 0.0, form: str = "out", semantics: str = "paper"
    ) -> None:
        super().__init__(temperature=temperature, epsilon=epsilon, semantics=semantics)
        check_choice("form", form, FORMS)
        if form != "out" and semantics != "released":
            raise ConfigError("eps_supinfonce has its form `in` only in the released code: try loss.semantics=released")
        self.form = form

    def per_anchor(self, pairs: Pairs) -> Tensor:
        negatives = pairs.log_sum_exp(different_class)
        scale = self.temperature / BASE_TEMPERATURE if self.semantics == "released" else 1.0
        if self.semantics == "released" and self.form == "out":
            negatives = add_inside_log(negatives, TINY, self.temperature)
        count = pairs.count(positive)
        if self.form == "out":
            value = pairs.mean_softplus(positive, negatives + self.epsilon) - self.epsilon
        else:
            log_sum = torch.where(count > 0, pairs.log_sum_exp(positive), 0)
            log_margin_mean = log_sum - self.epsilon - count.clamp(min=1).log()
            value = log_margin_mean - log_sum + F.softplus(negatives - log_margin_mean)
        return scale * torch.where(count > 0, value, 0)
