"""NT-Xent that cannot see a cone: it compares embeddings from which the mean of the batch is taken."""

from torch import Tensor

from contrastive import NTXent, Pairs
from contrastive.types import unit


class CenteredNTXent(NTXent):
    """NT-Xent of unit vectors less their mean over the batch; the difference is scaled to length 1 again."""

    def pairs(
        self, z: Tensor, label: Tensor | None = None, bias: Tensor | None = None, anchors: slice = slice(None)
    ) -> list[Pairs]:
        z = unit(z)
        return super().pairs(z - z.mean((0, 1)), label, bias, anchors)
