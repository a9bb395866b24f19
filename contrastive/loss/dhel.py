"""Decoupled hyperspherical energy loss.

Two views of an image are aligned, and the images of one view are spread on the sphere. Negatives of the other view are
not used.

:title: Decoupled hyperspherical energy
:data: pairs
:when: You want alignment and uniformity as two separate terms.
:memory: B
:checked: authors
:cite: koromilas2024bridging
:related: kcl, decoupled, nt_xent
"""

import math

import torch
from torch import Tensor

from contrastive.errors import check_choice
from contrastive.loss.base import SEMANTICS, SelfSupervisedLoss
from contrastive.pairs.pairs import Pairs
from contrastive.pairs.relations import Relation, SampleId, other_image


def same_view(anchor: SampleId, candidate: SampleId) -> Tensor:
    """Other images in the anchor's view: of two anchor views, rows of the same parity."""
    return other_image(anchor, candidate) & ((anchor.row - candidate.row) % 2 == 0)


class SameViewLoss(SelfSupervisedLoss):
    """A loss whose negatives are the other images in the anchor's own view."""

    takes = ("both", "ids")
    views_are_sources = True

    @property
    def negative_relation(self) -> Relation:
        return same_view

    def log_negative_mass(self, pairs: Pairs) -> Tensor:
        return pairs.log_sum_exp(other_image)


class DHEL(SameViewLoss):
    """Align the views of an image, spread the images of each view (Koromilas et al. 2024, DHEL).

        L_i = -s+ + log Σ_j e^{s_j}

    over the B - 1 other images j in the anchor's own view, so that alignment and uniformity share no term. With two
    sources each is spread by itself. So `across="both"` changes nothing, and further candidates are refused.

    Push: 1 for `paper`, 2 for `released`.

    Args:
        temperature: t > 0.
        semantics: `paper`, the mean over both views, or `released`, whose default adds the energies of both views to
            one alignment: the push counts twice.

    Shapes: z (B, V, D) → scalar.

    Raises:
        ConfigError: an argument out of range.

    The authors' code forms e^{s} directly and overflows in float32 below t = 1/88.

    >>> import torch
    >>> from contrastive import DHEL
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> DHEL()(z0, z1)
    tensor(-1.8086)
    """

    picks_positive = True

    def __init__(self, *, temperature: float = 0.5, semantics: str = "paper") -> None:
        super().__init__(temperature=temperature)
        check_choice("semantics", semantics, SEMANTICS)
        self.semantics = semantics

    def per_anchor(self, pairs: Pairs) -> Tensor:
        energy = pairs.log_sum_exp(same_view)
        if pairs.has_equal_ids:  # an anchor whose id all images have
            energy = torch.where(energy > -math.inf, energy, 0)
        return (2 if self.semantics == "released" else 1) * energy - pairs.positive_logits[:, 0]
