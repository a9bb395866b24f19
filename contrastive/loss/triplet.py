"""Triplet loss.

The other view must be nearer than another image, by a margin. A triplet that satisfies it costs nothing.

:title: Triplet loss
:data: pairs
:when: A baseline of metric learning.
:memory: B
:checked: formula
:cite: schroff2015facenet
:related: npair, contrastive_margin, mmcl
"""

import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import check_at_least
from contrastive.loss._views import ViewsLoss
from contrastive.types import unit


class Triplet(ViewsLoss):
    """The other view must be nearer than another image, by a margin (Schroff et al. 2015, eq. 3).

        L = mean_i relu( |a_i - p_i|² - |a_i - n_i|² + margin )

    on the unit sphere, with a view 0, p view 1, and n view 1 of the next image of the (shuffled) batch.

    Push: 1 where the margin is not kept; elsewhere an image is neither pushed nor pulled.

    Args:
        margin: at least 0, in squared distances (0.2 in the paper).

    Shapes: z (B, V, D) → scalar; views beyond the second are not used.

    Raises:
        ConfigError: a negative margin.

    >>> import torch
    >>> from contrastive import Triplet
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> Triplet(margin=3)(z0, z1)
    tensor(0.0934)
    """

    takes = ("first",)
    exempt_from = {"image order": "the negative is the next image", "view order": "only view 0 holds anchors"}

    def __init__(self, *, margin: float = 0.2) -> None:
        super().__init__()
        check_at_least("margin", margin, 0, example=0.2)
        self.margin = margin

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice) -> Tensor:
        z = unit(z)
        anchor, positive, negative = z[:, 0], z[:, 1], z[:, 1].roll(-1, 0)
        return F.relu((anchor - positive).square().sum(1) - (anchor - negative).square().sum(1) + self.margin).mean()
