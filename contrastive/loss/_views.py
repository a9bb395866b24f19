"""The bases of losses that compare views as wholes: no view of an image is an anchor among candidates."""

from abc import abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from contrastive.errors import check_at_least, check_between
from contrastive.loss.base import Loss
from contrastive.types import Split, unit


class ViewsLoss(Loss):
    """A loss that compares each view of a batch with the others; two sources are such views."""

    min_views = 2
    takes: tuple[str, ...] = ("both",)
    views_are_sources = True


class Sliced(ViewsLoss):
    """(1 - lam) · mean (z_v - c)² + lam · regularization, with c the mean over the views of an image.

    The regularization is a mean over unit directions, drawn anew for each step. They depend on `draw` alone, which
    counts the steps from a number that `prepare` draws: every process, device and resumed run has the same ones. Of
    several processes each takes its share of them, over the images of all.

    Args:
        lam: λ in [0, 1], the weight of the regularization.
        n_directions: M >= 1.

    Raises:
        ConfigError: an argument out of range.
    """

    exempt_from = {"scale": "the projections become a standard normal distribution"}

    def __init__(self, *, lam: float, n_directions: int) -> None:
        super().__init__()
        check_between("lam", lam, 0, 1, example=0.5)
        check_at_least("n_directions", n_directions, 1, example=1024)
        self.lam, self.n_directions = lam, n_directions
        self.draw: Tensor
        self.register_buffer("draw", torch.zeros((), dtype=torch.long))

    @abstractmethod
    def regularization(self, z: Tensor, directions: Tensor) -> Tensor:
        """The scalar of projections (V, B, D), its mean over unit directions (M, D)."""

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        self.draw = torch.randint(2**31, ())

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice) -> Tensor:
        mine = z[anchors]
        invariance = (mine - mine.mean(1, keepdim=True)).square().mean()
        regularization = self.regularization(z.transpose(0, 1), self.directions(z, anchors))
        return (1 - self.lam) * invariance + self.lam * regularization

    def directions(self, z: Tensor, anchors: slice = slice(None)) -> Tensor:
        """(m, D): as large a part of the M directions as the anchors are of the images; all if that is no whole number.

        Each number is a hash of its place and of `draw`: neither a CUDA graph nor a compiled step draws on the host.
        """
        # torch 2.11 cannot compile anchors.indices
        (n, _, dim), first, count = z.shape, (anchors.start or 0) % len(z), len(z[anchors])
        if count * self.n_directions % n:
            first, count = 0, n
        first, last = (end * self.n_directions // n * dim for end in (first, first + count))
        place = torch.arange(first, last, device=z.device)
        bits = _mixed(_mixed(place) ^ _mixed(self.draw)) >> 9
        normal = ((2 * bits + 1).to(z.dtype) / 2**23 - 1).erfinv()  # exact in float32 as far as erfinv
        return unit(normal.view(-1, dim))

    def after_step(self, gather: Callable[[Tensor], Tensor]) -> None:
        self.draw.add_(1)  # in its place: a captured step knows its tensors by their address


def _mixed(x: Tensor) -> Tensor:
    """Another number below 2³² for each: C. Wellons' hash prospector, github.com/skeeto/hash-prospector."""
    x = ((x ^ (x >> 16)) * 0x21F0AAAD) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x735A2D97) & 0xFFFFFFFF
    return x ^ (x >> 15)
