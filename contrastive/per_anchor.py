"""The base of every contrastive loss: a loss author writes `per_anchor(pairs) -> (A,)` and nothing else."""

from abc import ABC, abstractmethod
from itertools import combinations

import torch
from torch import Tensor

from contrastive.pairs import Pairs, check_temperature
from contrastive.refusal import require

AGGREGATIONS = ("loss_combination", "pos_grouping")


class PerAnchorLoss(ABC):
    """A loss that is the mean over anchors of something computed from their pairs.

    Called as `loss(z, label=None, bias=None)` with z (B, V, D), normalised or not, label and bias (B,) int64.
    Computes in float32 (float64 for float64 input), outside autocast. Returns a scalar.

    Raises:
        Refusal: when z has fewer views than the loss needs, or a label it needs is missing.
    """

    reads = "projections"
    needs_label = False
    needs_bias = False
    min_views = 1

    def __init__(self, *, temperature: float) -> None:
        check_temperature(temperature)
        self.temperature = temperature

    @abstractmethod
    def per_anchor(self, pairs: Pairs) -> Tensor:
        """(A,): the loss of each anchor."""

    def __call__(self, z: Tensor, label: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        with torch.autocast(z.device.type, enabled=False):
            parts = [self.per_anchor(pairs).mean() for pairs in self.pairs(z, label, bias)]
            return torch.stack(parts).mean()

    def pairs(self, z: Tensor, label: Tensor | None = None, bias: Tensor | None = None) -> list[Pairs]:
        """The batch as this loss looks at it: the loss is the mean over these. Here: every view is an anchor."""
        self.check_batch(batch_size=len(z), n_views=z.shape[1], has_label=label is not None, has_bias=bias is not None)
        return [Pairs(z, temperature=self.temperature, anchor_views=z.shape[1], label=label, bias=bias)]

    def diagnostics(self, pairs: Pairs) -> dict[str, Tensor]:
        """Scalars worth a curve, computed only on the steps that are logged."""
        return {}

    def check_batch(self, *, batch_size: int, n_views: int, has_label: bool, has_bias: bool) -> None:
        """Raise Refusal when such a batch cannot be used."""
        name = type(self).__name__
        require(n_views >= self.min_views, f"{name} compares {self.min_views} views of an image, got {n_views}: "
                                           f"try n_views={self.min_views}")
        require(has_label or not self.needs_label, f"{name} needs labels and the data has none: try loss=nt_xent "
                                                   "drop_false_negatives=false")
        require(has_bias or not self.needs_bias, f"{name} needs bias labels and the data has none: "
                                                 "try dataset=biased_digits")


class TwoViewLoss(PerAnchorLoss):
    """A self-supervised loss: an anchor, its mate, and the views of the other images.

    With more than two views, `aggregation` says how they are used (Troeshestova & Isachenko 2023, §4):
    `loss_combination` is the mean of the two-view loss over all C(V, 2) pairs of views; `pos_grouping` takes anchors
    and negatives from views 0 and 1 and lets every further view join the averaged positive term only.
    `drop_false_negatives` is the oracle: negatives of the anchor's own class leave the sums, counts stay N = 2B - 2.
    """

    min_views = 2

    def __init__(self, *, temperature: float, aggregation: str, drop_false_negatives: bool) -> None:
        super().__init__(temperature=temperature)
        require(aggregation in AGGREGATIONS, f"aggregation must be one of {', '.join(AGGREGATIONS)}, "
                                             f"got {aggregation}: try loss.aggregation=loss_combination")
        self.aggregation = aggregation
        self.drop_false_negatives = drop_false_negatives

    @property
    def needs_label(self) -> bool:  # type: ignore[override]
        return self.drop_false_negatives

    def pairs(self, z: Tensor, label: Tensor | None = None, bias: Tensor | None = None) -> list[Pairs]:
        views = z.shape[1]
        self.check_batch(batch_size=len(z), n_views=views, has_label=label is not None, has_bias=bias is not None)
        groups = [z]
        if views > 2 and self.aggregation == "loss_combination":
            groups = [z[:, list(two)] for two in combinations(range(views), 2)]
        return [Pairs(group, temperature=self.temperature, anchor_views=2, label=label, bias=bias) for group in groups]
