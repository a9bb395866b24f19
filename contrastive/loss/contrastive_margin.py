"""The original contrastive loss, with a margin.

Embeddings of a class are pulled together. Others are pushed apart until a margin is reached.

:title: Contrastive loss with a margin
:data: labels
:when: A baseline, the loss that gave the field its name.
:memory: B²
:checked: formula
:cite: hadsell2006contrastive
:related: triplet, supcon
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import check_above
from contrastive.loss.base import SampleLoss
from contrastive.types import unit


class ContrastiveMargin(SampleLoss):
    """Pull embeddings of a class together and push others beyond a margin (Hadsell et al. 2006, eq. 4, without halves).

        L = mean_{i<j} [ d² if y_i = y_j else relu(margin - d)² ],   d = |z_i - z_j| on the unit sphere

    over all pairs of views.

    Args:
        margin: above 0, in distances.

    Shapes: z (B, V, D), label (B,) → scalar.

    Raises:
        ConfigError: a margin of 0 or below.

    >>> import torch
    >>> from contrastive import ContrastiveMargin
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> ContrastiveMargin()(z0, z1, torch.tensor([0, 1, 1]))
    tensor(0.8984)
    """

    needs_label = True

    def __init__(self, *, margin: float = 1.0) -> None:
        super().__init__()
        check_above("margin", margin, 0, example=1.0)
        self.margin = margin

    def per_batch(self, x: Tensor, label: Tensor, bias: Tensor) -> Tensor:
        if len(x) < 2:
            return x.sum() * 0
        x = unit(x)
        i, j = torch.triu_indices(len(x), len(x), 1, device=x.device)
        square = (x[i] - x[j]).square().sum(1)
        distance = square.clamp(min=1e-12).sqrt()  # a finite gradient where two embeddings coincide
        return torch.where(label[i] == label[j], square, F.relu(self.margin - distance).square()).mean()
