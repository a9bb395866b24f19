"""What can be minimized: the base of every loss and regularizer.

A contrastive loss writes `per_anchor(pairs) -> (A,)` and nothing else; anything else writes `compute`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import combinations

import torch
from torch import Tensor, nn

from contrastive.errors import ConfigError
from contrastive.pairs.pairs import Pairs, check_temperature
from contrastive.pairs.relations import Relation, other_class, other_image, positive
from contrastive.types import WHOLE, Shard, Split

AGGREGATIONS = ("loss_combination", "pos_grouping")


class Loss(nn.Module, ABC):
    """A scalar to minimize, called as `term(z, label=None, bias=None)`.

    z is (B, V, D) of the station named by `reads`: `projections`, `features`, or `logits` of the linear classifier
    that is trained along when a term asks for it; label and bias are (B,) int64. Half precision is widened to float32
    (float64 is kept) and autocast is off inside.

    With a `share` the value is this process's part of the loss of the whole batch z: the shares of all processes sum to
    the loss, and their gradients to its gradient. A contrastive loss gives the part of its own anchors; what is no mean
    over anchors is computed whole by everyone and divided.

    `prepare` is called once with the training data before the first step; parameters a term makes there are trained.

    Raises:
        ConfigError: z has fewer views than the term needs, or labels it needs are missing.
    """

    input = "projections"
    needs_label = False
    needs_bias = False
    min_views = 1
    # Which of {image order, view order, scale, gradient, descent} does not hold (testing.check_loss), and why.
    exempt_from: dict[str, str] = {}

    def forward(
        self, z: Tensor, label: Tensor | None = None, bias: Tensor | None = None, share: Shard = WHOLE
    ) -> Tensor:
        self.check_batch(batch_size=len(z), n_views=z.shape[1], has_label=label is not None, has_bias=bias is not None)
        with torch.autocast(z.device.type, enabled=False):
            return self.compute_share(z if z.dtype == torch.float64 else z.float(), label, bias, share)

    def compute_share(self, z: Tensor, label: Tensor | None, bias: Tensor | None, share: Shard) -> Tensor:
        """What `share` contributes to the value of a batch that was checked."""
        return self.compute(z, label, bias) / share.world_size

    @abstractmethod
    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
        """The value for one batch that was checked."""

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        """Take from the training data what the term needs of it; dim is the last dimension of z."""

    def diagnostics(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        """Scalars worth a curve, computed only on the steps that are logged."""
        return {}

    def check_config(self, *, batch_size: int) -> None:
        """Raise ConfigError for a batch size this term must not be trained with."""

    def check_batch(self, *, batch_size: int, n_views: int, has_label: bool, has_bias: bool) -> None:
        """Raise ConfigError when such a batch cannot be used."""
        name = type(self).__name__
        if not n_views >= self.min_views:
            raise ConfigError(
                f"{name} compares {self.min_views} views of an image, got {n_views}: try n_views={self.min_views}"
            )
        if not has_label and self.needs_label:
            raise ConfigError(
                f"{name} needs a label for every training image and the data has images without: "
                "try loss=nt_xent loss.drop_false_negatives=false regularizer=none"
            )
        if not has_bias and self.needs_bias:
            raise ConfigError(f"{name} needs bias labels and the data has none: try dataset=biased_digits")


class SelfSupervisedLoss(Loss):
    """A self-supervised loss: an anchor, its mate, and the views of the other images.

    With more than two views, `aggregation` says how they are used (Troeshestova & Isachenko 2023, §4):
    `loss_combination` is the mean of the two-view loss over all C(V, 2) pairs of views; `pos_grouping` takes anchors
    and negatives from views 0 and 1 and lets every further view join the averaged positive term only.
    `drop_false_negatives` is the oracle: negatives of the anchor's own class leave the sums, counts stay N = 2B - 2.
    """

    min_views = 2

    def __init__(self, *, temperature: float, aggregation: str, drop_false_negatives: bool) -> None:
        super().__init__()
        check_temperature(temperature)
        if aggregation not in AGGREGATIONS:
            raise ConfigError(
                f"aggregation must be one of {', '.join(AGGREGATIONS)}, "
                f"got {aggregation}: try loss.aggregation=loss_combination"
            )
        self.temperature = temperature
        self.aggregation = aggregation
        self.drop_false_negatives = drop_false_negatives
        self.needs_label = drop_false_negatives

    @abstractmethod
    def per_anchor(self, pairs: Pairs) -> Tensor:
        """(A,): the loss of each anchor."""

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
        return self.compute_share(z, label, bias, WHOLE)

    def compute_share(self, z: Tensor, label: Tensor | None, bias: Tensor | None, share: Shard) -> Tensor:
        means = [self.per_anchor(pairs).mean() for pairs in self.pairs(z, label, bias, share)]
        return torch.stack(means).mean() / share.world_size

    def pairs(
        self, z: Tensor, label: Tensor | None = None, bias: Tensor | None = None, share: Shard = WHOLE
    ) -> list[Pairs]:
        """The batch as this loss looks at it: the loss is the mean over these."""
        groups = [z]
        if z.shape[1] > 2 and self.aggregation == "loss_combination":
            groups = [z[:, list(two)] for two in combinations(range(z.shape[1]), 2)]
        return [
            Pairs(group, temperature=self.temperature, anchor_views=2, label=label, bias=bias, images=share.of(len(z)))
            for group in groups
        ]

    def log_negative_mass(self, pairs: Pairs) -> Tensor:
        """(A,): log of the negative term as the loss estimates it, for curves; here log Σ_j e^{s_j}."""
        return pairs.log_sum_exp(other_class if self.drop_false_negatives else other_image)

    def share_clamped(
        self, z: Tensor, label: Tensor | None, bias: Tensor | None, clamped: Callable[[Pairs], Tensor]
    ) -> dict[str, Tensor]:
        """{clamped: share of anchors on the floor}, from a function Pairs → (A,) bool."""
        if len(z) == 1:
            return {}
        return {"clamped": torch.stack([clamped(p).float().mean() for p in self.pairs(z, label, bias)]).mean()}


class SupervisedContrastiveLoss(Loss):
    """A contrastive loss with labels: every view is an anchor, images of its class are positives."""

    needs_label = True

    def __init__(self, *, temperature: float) -> None:
        super().__init__()
        check_temperature(temperature)
        self.temperature = temperature

    positives: Relation = staticmethod(positive)  # which pairs pull an anchor

    def diagnostics(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        """{without_positives: share of anchors that have none and so contribute 0}."""
        pairs = Pairs(z, temperature=self.temperature, anchor_views=z.shape[1], label=label, bias=bias)
        return {"without_positives": (pairs.count(self.positives) == 0).float().mean()}

    @abstractmethod
    def per_anchor(self, pairs: Pairs) -> Tensor:
        """(A,): the loss of each anchor; 0 for an anchor without positives, which stays in the mean."""

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
        return self.compute_share(z, label, bias, WHOLE)

    def compute_share(self, z: Tensor, label: Tensor | None, bias: Tensor | None, share: Shard) -> Tensor:
        pairs = Pairs(
            z, temperature=self.temperature, anchor_views=z.shape[1], label=label, bias=bias, images=share.of(len(z))
        )
        return self.per_anchor(pairs).mean() / share.world_size
