"""The original contrastive loss, with a margin."""

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.loss.base import Loss


class ContrastiveMargin(Loss):
    """Pull a class together, push others beyond a margin (Hadsell et al. 2006, eq. 4, without its halves).

        L = mean_{i<j} [ d² if y_i = y_j else relu(margin - d)² ],   d = |z_i - z_j| on the unit sphere

    over all pairs of embeddings, every view being one.

    Args:
        margin: above 0, in distances.

    Raises:
        ConfigError: a margin of 0 or below.
    """

    needs_label = True

    def __init__(self, *, margin: float) -> None:
        super().__init__()
        if not margin > 0:
            raise ConfigError(f"margin must be above 0, got {margin}: try loss.margin=0.2")
        self.margin = margin

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
        assert label is not None
        label = label.repeat_interleave(z.shape[1])
        z = F.normalize(z, dim=-1).flatten(0, 1)
        if len(z) < 2:
            return z.sum() * 0
        i, j = torch.triu_indices(len(z), len(z), 1, device=z.device)
        square = (z[i] - z[j]).square().sum(1)
        distance = square.clamp(min=1e-12).sqrt()  # a finite gradient where two embeddings coincide
        return torch.where(label[i] == label[j], square, F.relu(self.margin - distance).square()).mean()
