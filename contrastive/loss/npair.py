"""N-pair loss.

Each anchor picks its positive among those of all images. Cosines are used as they are, without a temperature.

:title: N-pair loss
:data: pairs
:when: A baseline of metric learning.
:memory: B²
:checked: formula
:cite: sohn2016npair
:related: nt_xent, triplet
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.loss._views import ViewsLoss
from contrastive.types import unit


class NPair(ViewsLoss):
    """Pick each image's positive among those of all images, without a temperature (Sohn 2016, eq. 7).

        L = mean_i log( 1 + Σ_{j≠i} e^{a_i·p_j - a_i·p_i} )

    with anchors a (view 0) and positives p (view 1), normalized here as in SimCLR's comparison; the paper penalizes
    their norm instead.

    Push: 1.

    Shapes: z (B, V, D) → scalar; views beyond the second are not used.

    >>> import torch
    >>> from contrastive import NPair
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> NPair()(z0, z1)
    tensor(0.5005)
    """

    takes = ("first",)
    exempt_from = {"view order": "only view 0 holds anchors"}

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice) -> Tensor:
        z = unit(z)
        return F.cross_entropy(z[:, 0] @ z[:, 1].T, torch.arange(len(z), device=z.device))
