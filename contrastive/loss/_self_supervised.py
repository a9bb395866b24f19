"""SelfSupervisedLoss, the base class of contrastive losses without labels."""

from abc import abstractmethod
from itertools import combinations

import torch
from torch import Tensor

from contrastive.errors import check_choice
from contrastive.loss._checks import check_temperature
from contrastive.loss._false_negatives import false_negative_metrics
from contrastive.loss._loss import Loss
from contrastive.pairs.pairs import Pairs, log_mean_exp
from contrastive.pairs.relations import Relation, other_class, other_image

AGGREGATIONS = ("loss_combination", "pos_grouping")


class SelfSupervisedLoss(Loss):
    """A self-supervised contrastive loss: each view of views 0 and 1 is an anchor, other images are its negatives.

    Args:
        temperature: t > 0.
        aggregation: how further views are used (Troeshestova & Isachenko 2023, §2.3): `loss_combination` is the mean of
            the two-view loss over all C(V, 2) pairs of views; `pos_grouping` takes anchors and negatives from views 0
            and 1 and averages the positive term over all further views.
        drop_false_negatives: the oracle. Negatives of the anchor's class leave the sums, counts stay N = 2B - 2; needs
            labels.

    Raises:
        ConfigError: an argument out of range.
    """

    min_views = 2

    def __init__(
        self,
        *,
        temperature: float = 0.5,
        aggregation: str = "loss_combination",
        drop_false_negatives: bool = False,
    ) -> None:
        super().__init__()
        check_temperature(temperature)
        check_choice("loss.aggregation", aggregation, AGGREGATIONS)
        self.temperature = temperature
        self.aggregation = aggregation
        self.drop_false_negatives = drop_false_negatives
        self.needs_label = drop_false_negatives

    @abstractmethod
    def per_anchor(self, pairs: Pairs) -> Tensor:
        """(A,): the loss of each anchor, for B >= 2 images."""

    @property
    def negative_relation(self) -> Relation:
        """The pairs that repel an anchor."""
        return other_class if self.drop_false_negatives else other_image

    def log_negative_mass(self, pairs: Pairs) -> Tensor:
        """(A,): log of the negative term as this loss estimates it, for curves; here log Σ_j e^{s_j}."""
        return pairs.log_sum_exp(self.negative_relation)

    def log_positive(self, pairs: Pairs) -> Tensor:
        """(A,): log of the mean positive term as this loss estimates it, for curves; here log mean_m e^{v_m}."""
        return log_mean_exp(pairs.positive_logits)

    def clamped(self, pairs: Pairs) -> Tensor | None:
        """(A,) bool: the anchors whose estimate sits on its floor, for curves; None for a loss without a floor."""
        return None

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice) -> Tensor:
        if len(z) == 1:  # one image has no negatives
            return z.sum() * 0
        return torch.stack([self.per_anchor(pairs).mean() for pairs in self.pairs(z, label, bias, anchors)]).mean()

    def pairs(
        self, z: Tensor, label: Tensor | None = None, bias: Tensor | None = None, anchors: slice = slice(None)
    ) -> list[Pairs]:
        """The pairs of each group of views; the loss is the mean over groups."""
        groups = [z]
        if z.shape[1] > 2 and self.aggregation == "loss_combination":
            groups = [z[:, list(two)] for two in combinations(range(z.shape[1]), 2)]
        return [
            Pairs(
                group,
                temperature=self.temperature,
                anchor_views=2,
                label=label,
                bias=bias,
                anchor_images=anchors,
                tiling=self.tiling,
            )
            for group in groups
        ]

    def diagnostics(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        """{pairs/clamped: fraction of anchors on the floor} and, if all images have labels, `debiasing/...`."""
        if len(z) == 1:
            return {}
        clamped = [mask for pairs in self.pairs(z, label, bias) if (mask := self.clamped(pairs)) is not None]
        metrics = {"pairs/clamped": torch.cat(clamped).float().mean()} if clamped else {}
        if label is not None and bool((label >= 0).all()):
            with torch.enable_grad():
                pairs = self.pairs(z.detach().requires_grad_(), label)[0]
                metrics |= false_negative_metrics(
                    pairs,
                    per_anchor=self.per_anchor,
                    log_negative_mass=self.log_negative_mass,
                    log_positive=self.log_positive,
                )
        return metrics
