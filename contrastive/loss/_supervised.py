"""SupervisedContrastiveLoss, the base class of contrastive losses with labels."""

import math
from abc import abstractmethod

import torch
from torch import Tensor

from contrastive.loss._checks import check_temperature
from contrastive.loss._loss import Loss
from contrastive.pairs.pairs import Pairs
from contrastive.pairs.relations import Relation, positive


def add_inside_log(log_sum: Tensor, tiny: float, temperature: float) -> Tensor:
    """log(Σ + tiny e^{1/t}): the constant that released code adds to a sum of e^{s - 1/t} lest its log be infinite."""
    return torch.logaddexp(log_sum, torch.full_like(log_sum, math.log(tiny) + 1 / temperature))


class SupervisedContrastiveLoss(Loss):
    """A contrastive loss with labels: every view is an anchor, images of its class are its positives.

    Args:
        temperature: t > 0.

    Raises:
        ConfigError: an argument out of range.
    """

    needs_label = True
    positive_relation: Relation = staticmethod(positive)  # the pairs that attract an anchor

    def __init__(self, *, temperature: float = 0.5) -> None:
        super().__init__()
        check_temperature(temperature)
        self.temperature = temperature

    @abstractmethod
    def per_anchor(self, pairs: Pairs) -> Tensor:
        """(A,): the loss of each anchor; 0 for an anchor without positives, which stays in the mean."""

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice) -> Tensor:
        return self.per_anchor(self.pairs(z, label, bias, anchors)).mean()

    def pairs(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice = slice(None)) -> Pairs:
        """All pairs of the batch."""
        return Pairs(
            z,
            temperature=self.temperature,
            anchor_views=z.shape[1],
            label=label,
            bias=bias,
            anchor_images=anchors,
            tiling=self.tiling,
        )

    def diagnostics(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        """{pairs/without_positives: fraction of anchors that have none and so contribute 0}."""
        count = self.pairs(z, label, bias).count(self.positive_relation)
        return {"pairs/without_positives": (count == 0).float().mean()}
