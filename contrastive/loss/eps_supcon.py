"""ε-SupCon: SupCon with the margin of ε-SupInfoNCE.

SupCon asks that positives be more similar than negatives. This asks it by a margin ε.

:title: ε-SupCon
:data: labels
:when: Labels, and classes that are hard to part; with `regularizer=fairkl` also against a bias.
:memory: B
:checked: authors
:cite: barbano2023unbiased
:related: eps_supinfonce, supcon
"""

import torch
from torch import Tensor

from contrastive.errors import check_at_least, check_choice
from contrastive.loss.base import SEMANTICS, SupervisedContrastiveLoss
from contrastive.pairs.pairs import Pairs, add_inside_log
from contrastive.pairs.relations import different_class, positive

BASE_TEMPERATURE, TINY = 0.07, 1e-6  # constants of the released code, not in the paper


class EpsSupCon(SupervisedContrastiveLoss):
    """SupCon with a margin ε between positives and negatives (Barbano et al. 2023, eq. 13; "Eq. 18" in their code).

        L_i = log( Σ_p e^{s_p - ε} + Σ_{j: y_j≠y_i} e^{s_j} ) - mean_p s_p

    ε = 0 is SupCon `out`. An anchor without positives contributes 0.

    Push: 1; `released` Σ_j e^{s_j} / (Σ_j e^{s_j} + 1e-6 e^{1/t}), below 1.

    Args:
        temperature: t > 0.
        epsilon: ε >= 0, in units of logits.
        semantics: `paper`, as above; `released` multiplies by t / 0.07 and adds 1e-6 e^{1/t} to the denominator.

    Shapes: z (B, V, D), label (B,) → scalar.

    Raises:
        ConfigError: an argument out of range.

    >>> import torch
    >>> from contrastive import EpsSupCon
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> EpsSupCon()(z0, z1, torch.tensor([0, 1, 1]))
    tensor(1.6185)
    """

    def __init__(self, *, temperature: float = 0.5, epsilon: float = 0.0, semantics: str = "paper") -> None:
        super().__init__(temperature=temperature)
        check_at_least("epsilon", epsilon, 0, example=0.25)
        check_choice("semantics", semantics, SEMANTICS)
        self.epsilon = epsilon
        self.semantics = semantics

    def per_anchor(self, pairs: Pairs) -> Tensor:
        negatives = pairs.log_sum_exp(different_class)
        scale: float | Tensor = 1.0
        if self.semantics == "released":
            scale = self.temperature / BASE_TEMPERATURE
            negatives = add_inside_log(negatives, TINY, self.temperature)
        has_positive = pairs.count(positive) > 0
        positives = torch.where(has_positive, pairs.log_sum_exp(positive), 0) - self.epsilon
        return scale * torch.where(has_positive, torch.logaddexp(positives, negatives) - pairs.mean_logit(positive), 0)
