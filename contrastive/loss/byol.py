"""BYOL: predict a teacher's projection of the other view.

The predictor of one view meets the teacher's projection of the other. There are no negatives, and the teacher is an
average of the model.

:title: BYOL
:data: pairs
:when: A control without negatives, where batches are small.
:memory: B
:checked: formula
:cite: grill2020byol
:related: simsiam, barlow, vicreg
"""

from torch import Tensor

from contrastive.loss._target import TargetLoss


class BYOL(TargetLoss):
    """The squared distance of prediction and target, both of length 1 (Grill et al. 2020, eq. 2).

        L_i = ‖p̂_0 - k̂_1‖² + ‖p̂_1 - k̂_0‖² = (2 - 2 p̂_0·k̂_1) + (2 - 2 p̂_1·k̂_0)

    p are the predictions of the trained network, k the projections of its teacher, held constant. There are no
    negatives. It is for `teacher=ema head=predictor`.

    Push: 0, there are no negatives.

    Shapes: z (B, 2, D), keys (B, 2, D) → scalar.

    The authors' code is the same sum.

    >>> import torch
    >>> from contrastive import BYOL
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> keys = torch.arange(24.0).view(3, 2, 4).sin()  # (B, 2, D), of a teacher
    >>> BYOL()(z0, z1, keys=keys, across="both")
    tensor(4.1484)
    """

    def per_image(self, cosines: Tensor) -> Tensor:
        return (2 - 2 * cosines).sum(1)
