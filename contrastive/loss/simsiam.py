"""SimSiam: predict the network's own projection of the other view."""

from torch import Tensor

from contrastive.loss._target import TargetLoss


class SimSiam(TargetLoss):
    """The negative cosine of prediction and target (Chen & He 2021, eqs. 1 to 3).

        L_i = -½ p̂_0·k̂_1 - ½ p̂_1·k̂_0

    p are the predictions of the trained network, k its own projections, held constant: those of a teacher of momentum
    0. There are no negatives. It is for `teacher=ema teacher.momentum=0 head=predictor`.

    Shapes: z (B, 2, D), keys (B, 2, D) → scalar.

    The authors' code is the same mean.
    """

    def per_image(self, cosines: Tensor) -> Tensor:
        return -cosines.mean(1)
