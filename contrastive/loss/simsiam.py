"""SimSiam: predict the network's own projection of the other view.

The predictor of one view meets the projection of the other, through which no gradient flows. There are no negatives,
and the teacher is the network itself (`teacher=ema teacher.momentum=0`).

:title: SimSiam
:data: pairs
:when: A control without negatives and without a moving average.
:memory: B
:checked: formula
:cite: chen2021simsiam
:related: byol, barlow, vicreg
"""

from torch import Tensor

from contrastive.loss._target import TargetLoss


class SimSiam(TargetLoss):
    """The negative cosine of prediction and target (Chen & He 2021, eqs. 1 to 3).

        L_i = -½ p̂_0·k̂_1 - ½ p̂_1·k̂_0

    p are the predictions of the trained network, k its own projections, held constant: those of a teacher of momentum
    0. There are no negatives. It is for `teacher=ema teacher.momentum=0 head=predictor`.

    Push: 0, there are no negatives.

    Shapes: z (B, 2, D), keys (B, 2, D) → scalar.

    The authors' code is the same mean.

    >>> import torch
    >>> from contrastive import SimSiam
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> keys = torch.arange(24.0).view(3, 2, 4).sin()  # (B, 2, D), of a teacher
    >>> SimSiam()(z0, z1, keys=keys, across="both")
    tensor(0.0371)
    """

    def per_image(self, cosines: Tensor) -> Tensor:
        return -cosines.mean(1)
