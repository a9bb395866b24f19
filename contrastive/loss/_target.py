"""The base of losses that predict a teacher's projections and have no negatives."""

from abc import abstractmethod

from torch import Tensor

from contrastive.loss.base import Loss
from contrastive.types import unit, widen


class TargetLoss(Loss):
    """A value for each cosine between a prediction and the teacher's projection of the image's other view.

    Without `keys` the other view itself is the target, its gradient stopped. Nothing keeps views from becoming all
    alike there: a training needs a teacher and a predictor.
    """

    takes = ("both", "first", "keys")
    min_views = 2
    exempt_from = {"gradient": "the target is held constant"}

    @abstractmethod
    def per_image(self, cosines: Tensor) -> Tensor:
        """(B,): the value of each image from its cosines (B, 1 or 2), one a direction."""

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice) -> Tensor:
        target = (z if self.others.keys is None else widen(self.others.keys)).detach()
        cosines = (unit(z) * unit(target).flip(1)).sum(-1)
        return self.per_image(cosines[anchors, :1] if self.others.across == "first" else cosines[anchors]).mean()
