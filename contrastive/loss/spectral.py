"""Spectral contrastive loss.

Positive pairs get a large inner product, others a small squared one. Its minimum factorizes the graph that joins views
of one image.

:title: Spectral contrastive loss
:data: pairs
:when: You want the loss that theory is written about, without a temperature.
:memory: D²
:checked: authors
:cite: haochen2021spectral
:related: kcl, barlow, vicreg
"""

from itertools import permutations

import torch
from torch import Tensor

from contrastive.errors import check_above
from contrastive.loss._views import ViewsLoss
from contrastive.types import unit


class Spectral(ViewsLoss):
    """A factorization of the graph that joins views of one image (HaoChen et al. 2021, eq. 6).

        L = -2 mean_i x_i·y_i + μ mean_{i≠j} (x_i·y_j)²

    for the views x and y of an image on the unit sphere, the mean over all pairs of views. The second term is a product
    of two D × D matrices: time and memory are linear in the batch.

    Push: μ mean_{j≠i} x_i·y_j: an image that points away is pulled.

    Args:
        mu: μ > 0, the squared radius of the authors' sphere: 1 in their configuration for CIFAR-10, 10 for ImageNet.

    Shapes: z (B, V, D) → scalar.

    Raises:
        ConfigError: an argument out of range.

    The authors' code shrinks only embeddings beyond the sphere of radius √μ and divides the loss by μ.

    >>> import torch
    >>> from contrastive import Spectral
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> Spectral()(z0, z1)
    tensor(-1.2619)
    """

    def __init__(self, *, mu: float = 1.0) -> None:
        super().__init__()
        check_above("mu", mu, 0, example=1.0)
        self.mu = mu

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice) -> Tensor:
        n, z = len(z), unit(z)
        if n == 1:
            return z.sum() * 0
        mine = z[anchors]
        gram = torch.einsum("bvd,bve->vde", z, z)
        mine_gram = torch.einsum("bvd,bve->vde", mine, mine)
        losses = []
        for v, w in permutations(range(z.shape[1]), 2):
            positive = (mine[:, v] * mine[:, w]).sum(1)
            square = (mine_gram[v] * gram[w]).sum() - positive.square().sum()  # Σ_{i≠j} (x_i·y_j)²
            losses.append(-2 * positive.mean() + self.mu * square / (len(mine) * (n - 1)))
        return torch.stack(losses).mean()
