"""Loss, the base class of losses and regularizers, and SampleLoss, for which every view is a sample."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn

from contrastive.errors import ConfigError, check_choice, check_temperature
from contrastive.gathering import Group
from contrastive.loss._batch import Call, check_shapes, is_view
from contrastive.loss._diagnostics import false_negative_metrics, mean_of, push_ratio
from contrastive.pairs.others import Others
from contrastive.pairs.pairs import ALONE, Pairs, log_mean_exp
from contrastive.pairs.relations import Relation, other_class, other_image, positive
from contrastive.pairs.tiles import Tiling
from contrastive.types import Split, widen


class Loss(nn.Module, ABC):
    """A scalar to minimize, called as `loss(z0, z1)` with two views or as `loss(z)` with V of them.

        loss(image, text, across="both")          two sources: anchors of one, candidates of the other, the mean of both
        loss(query, document, across="first")     anchors are the queries alone
        loss(z0, z1, memory=queue)                further candidates (K, D): a queue, hard negatives
        loss(image, text, across="both", ids=i)   images with the same id are not negatives of one another
        loss(z0, z1, gather=True)                 the batch of all processes

    z is (B, V, D): `projections`, `features`, or `logits` of a jointly trained linear classifier, as declared in
    `input`. Half precision is converted to float32 (float64 is kept) and autocast is off.

    `anchors` selects images, all by default. A mean over anchors is taken over their views only, with every image as a
    candidate. A loss that is not such a mean ignores `anchors`. In both cases the mean of the values for equal slices
    that cover the batch is the value for the whole batch. The same holds for the gradients.

    `index` (B,) int64 holds the rows of the training data that the images come from. A loss that keeps a number for
    each of them sets `reads_index` and has a buffer, created by `prepare`. `compute` reads it at `self.index`,
    `after_step` writes it, and every checkpoint contains it.

    Raises:
        ConfigError: wrong shapes, fewer views than the loss needs, missing labels, candidates that the loss cannot
            use, or batches of different sizes with `gather`.

    Warns:
        UserWarning: a loss that compares views got twice as many views as images, as of torch.stack([z0, z1]).
    """

    input = "projections"
    reads_index = False
    index: Tensor | None = None  # from a call to the end of its step; None = unknown images
    unit_features = False  # input `logits`: the classifier reads features scaled to length 1
    needs_label = False
    needs_bias = False
    min_views = 1
    # Which of {image order, view order, scale, gradient, descent} does not hold (testing.check_loss), and why.
    exempt_from: dict[str, str] = {}
    # How much of the A × A matrix a contrastive loss holds at once; None = the default of the device.
    tiling: Tiling | None = None
    # Factor on the gradient of a contrastive loss with respect to its negatives; its value stays as it is.
    push: float = 1.0
    # What it has a meaning for, of {both, first, keys, memory, memory_only, ids}, see `Others.uses`.
    takes: tuple[str, ...] = ()
    views_are_sources = False  # two views are compared as two sources in any case, so that `across` changes nothing
    others: Others = ALONE  # during a call, for `compute` and `diagnostics`
    gather: bool | Group = False  # as the argument of a call, once for all calls
    # {} asks the next call for the curves of its batch, see `diagnostics`, which it puts there.
    curves: dict[str, Tensor] | None = None

    def forward(
        self,
        z: Tensor,
        *rest: Any,
        label: Tensor | None = None,
        bias: Tensor | None = None,
        anchors: slice = slice(None),
        index: Tensor | None = None,
        across: str | None = None,
        keys: Tensor | None = None,
        memory: Tensor | None = None,
        memory_label: Tensor | None = None,
        memory_ids: Tensor | None = None,
        memory_only: bool = False,
        ids: Tensor | None = None,
        gather: bool | Group = False,
    ) -> Tensor:
        """The loss of `loss(z, label, bias)`, or of `loss(z0, z1, label, bias)` with z = torch.stack([z0, z1], 1).

        Args:
            z: (B, V, D), or the first of two views or sources (B, D).
            rest: the second one (B, D) if z is the first one, then label, bias, anchors and index by their places.
            label: (B,) int64.
            bias: (B,) int64.
            anchors: images, in a training those of one process.
            index: (B,) int64, in a training.
            across: None: two views of one encoder, and an anchor's negatives are the 2B - 2 views of other images.
                `both`: two sources, such as image and text. Its negatives are the B - 1 others of the other source,
                and the loss is the mean over both directions. `first`: anchors are those of the first source only.
            keys: (B, 2, D) candidates of both sources instead of z, such as the projections of a teacher.
            memory: (K, D) further candidates of every anchor, such as a queue or mined hard negatives.
            memory_label: (K,) int64, -1 = unknown.
            memory_ids: (K,) int64 beside `ids`, -1 = unknown.
            memory_only: the memory holds all negatives, as in MoCo v2.
            ids: (B,) int64, -1 = unknown. Images with the same id are neither negatives nor positives of one another.
                Losses that divide by the number of negatives N do not reduce it.
            gather: use the batches of all processes, or of those of a process group, together. The mean of the values
                over processes is that of one process on the whole batch. The same holds for the gradients, averaged
                as in DistributedDataParallel. All processes need batches of equal size and the same memory. Pass hard
                negatives that each process has found for itself through `contrastive.gather` first.
        """
        if rest and is_view(rest[0]):
            z, rest = torch.stack([z, rest[0]], 1), rest[1:]
        given: tuple[Any, ...] = (*rest, *(label, bias, anchors, index)[len(rest) :])
        label, bias, anchors, index = given
        fields = (across, keys, memory, memory_label, memory_ids, memory_only, ids)
        others = Others(*fields) if any(field is not None and field is not False for field in fields) else ALONE
        call = Call(z, label, bias, anchors, index, others)
        check_shapes(z, label, bias)
        self.check_batch(batch_size=len(z), n_views=z.shape[1], has_label=label is not None, has_bias=bias is not None)
        if others is not ALONE:
            others.check(z, name=self.name, takes=self.takes)
        if self.min_views > 1 and 1 < len(z) <= z.shape[1] // 2:  # a few views more than images may be meant
            message = f"{self.name} got {len(z)} images of {z.shape[1]} views each: for two views try loss(z0, z1)"
            warnings.warn(message, stacklevel=4)  # at the call of the module
        group = gather or self.gather
        return self._value(call.gathered(None if group is True else group) if group else call)

    def _value(self, call: Call) -> Tensor:
        """The value of a checked call."""
        self.index = call.rows
        if call.others is not self.others:  # assigning to a module takes its time
            self.others = call.others._replace(across=None) if self.views_are_sources else call.others
        with torch.autocast(call.z.device.type, enabled=False):
            z = widen(call.z)
            if self.curves is not None:  # before `compute`, whose state `after_step` reads
                self.curves.update(self.diagnostics(z.detach(), call.label, call.bias))
            value = self.compute(z, call.label, call.bias, call.anchors)
        if self.others is not ALONE:
            self.others = ALONE
        if not isinstance(value, Tensor) or value.numel() != 1:
            found = _found(value)
            raise ConfigError(f"{self.name}.compute must return a tensor (), got {found}: try .mean(), and no .item()")
        return value.reshape(()) if value.ndim else value

    @property
    def name(self) -> str:
        """The name of this term in curves."""
        return type(self).__name__

    @abstractmethod
    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice) -> Tensor:
        """The value for one checked batch."""

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        """Compute statistics of the training data and create parameters, once, before the first step.

        dim is the last dimension of z. Parameters created here are trained. A loss whose
        `compute` needs this step raises ConfigError until it has happened.
        """

    def after_step(self, gather: Callable[[Tensor], Tensor]) -> None:
        """Change the state, after the weights have been updated.

        Args:
            gather: (n, ...) of the anchors of each process → those of the whole batch, in its order; every process
                must come to the same state.
        """

    def diagnostics(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        """{name of the curve: scalar}, computed only for logged steps; names carry a group, as in `pairs/clamped`."""
        return {}

    def check_config(self, *, batch_size: int) -> None:
        """Raise ConfigError if this loss cannot be trained with such a batch size."""

    def check_across(self, *, n_negatives: int) -> None:
        """Raise ConfigError if it must not be trained against so many candidates of another source, or of a teacher."""

    def check_batch(self, *, batch_size: int, n_views: int, has_label: bool, has_bias: bool) -> None:
        """Raise ConfigError if this loss cannot be computed on such a batch."""
        if n_views < self.min_views:
            raise ConfigError(
                f"{self.name} compares {self.min_views} views of an image, got {n_views}: try loss(z0, z1)"
            )
        if self.needs_label and not has_label:
            raise ConfigError(f"{self.name} needs the label of every image: try loss(z0, z1, label=label)")
        if self.needs_bias and not has_bias:
            raise ConfigError(f"{self.name} needs the bias label of every image: try loss(z0, z1, bias=bias)")


class SampleLoss(Loss):
    """A loss for which every view is a sample of its own; it is computed on the whole batch."""

    @abstractmethod
    def per_batch(self, x: Tensor, label: Tensor, bias: Tensor) -> Tensor:
        """The value for samples x (S, D), S = B · V, with label (S,) and bias (S,); -1 where unknown."""

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice) -> Tensor:
        return self.per_batch(z.flatten(0, 1), _per_view(label, z), _per_view(bias, z))


def _per_view(value: Tensor | None, z: Tensor) -> Tensor:
    """(B,) → (B · V,): the label or bias of every view; -1 if unknown."""
    if value is None:
        return torch.full((z.shape[0] * z.shape[1],), -1, device=z.device)
    return value.repeat_interleave(z.shape[1])


ALL_OTHERS = ("both", "first", "keys", "memory", "memory_only", "ids")
AGGREGATIONS = ("loss_combination", "pos_grouping")
SEMANTICS = ("paper", "released")  # what a loss follows where the two differ


class SelfSupervisedLoss(Loss):
    """A self-supervised contrastive loss: each view of views 0 and 1 is an anchor, other images are its negatives.

    N is the number of negatives: 2B - 2, across sources B - 1, and K more with a memory of K.

    Args:
        temperature: t > 0.
        aggregation: how further views are used (Troeshestova & Isachenko 2023, §2.3): `loss_combination` is the mean of
            the two-view loss over all C(V, 2) pairs of views; `pos_grouping` takes anchors and negatives from views 0
            and 1 and averages the positive term over all further views.
        drop_false_negatives: the oracle. Negatives of the anchor's class are left out of the sums, while N does not
            change. Needs labels.

    Raises:
        ConfigError: an argument out of range.
    """

    min_views = 2
    takes: tuple[str, ...] = ALL_OTHERS
    picks_positive = False  # among candidates: its value for views that are all alike is the level of chance

    def __init__(
        self,
        *,
        temperature: float = 0.5,
        aggregation: str = "loss_combination",
        drop_false_negatives: bool = False,
    ) -> None:
        super().__init__()
        check_temperature(temperature)
        check_choice("aggregation", aggregation, AGGREGATIONS)
        self.temperature: float | Tensor = temperature  # a tensor if a loop learns it
        self.aggregation = aggregation
        self.drop_false_negatives = drop_false_negatives
        self.needs_label = drop_false_negatives

    @abstractmethod
    def per_anchor(self, pairs: Pairs) -> Tensor:
        """(A,): the loss of each anchor, for B >= 2 images."""

    @property
    def negative_relation(self) -> Relation:
        """The pairs that repel an anchor."""
        return other_class if self.drop_false_negatives else other_image

    def log_negative_mass(self, pairs: Pairs) -> Tensor:
        """(A,): log of the negative term as this loss estimates it, for curves; here log Σ_j e^{s_j}."""
        return pairs.log_sum_exp(self.negative_relation)

    def log_positive(self, pairs: Pairs) -> Tensor:
        """(A,): log of the mean positive term as this loss estimates it, for curves; here log mean_m e^{v_m}."""
        return log_mean_exp(pairs.positive_logits)

    def clamped(self, pairs: Pairs) -> Tensor | None:
        """(A,) bool: the anchors whose estimate sits on its floor, for curves; None for a loss without a floor."""
        return None

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice) -> Tensor:
        if len(z) == 1 and self.others.memory is None:  # one image has no negatives
            return z.sum() * 0
        groups = self.pairs(z, label, bias, anchors)
        values = [mean_over_anchors(self, self.per_anchor(pairs), pairs) for pairs in groups]
        return values[0] if len(values) == 1 else torch.stack(values).mean()

    def pairs(
        self, z: Tensor, label: Tensor | None = None, bias: Tensor | None = None, anchors: slice = slice(None)
    ) -> list[Pairs]:
        """The pairs of each group of views, or of each direction; the loss is the mean over groups."""
        groups = [z]
        if z.shape[1] > 2 and self.aggregation == "loss_combination":
            # a slice, as a list of two numbers would be copied to the device
            groups = [z[:, i : j + 1 : j - i] for i, j in combinations(range(z.shape[1]), 2)]
        return _pairs(self, groups, label, bias, anchors, anchor_views=2, negatives=self.negative_relation)

    def diagnostics(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        """{pairs/clamped: fraction of anchors on the floor, pairs/push_ratio: repulsion per attraction} and, if all
        images have labels, `debiasing/...`."""
        if len(z) == 1 and self.others.memory is None:
            return {}
        clamped = [mask for pairs in self.pairs(z, label, bias) if (mask := self.clamped(pairs)) is not None]
        metrics = {"pairs/clamped": torch.cat(clamped).float().mean()} if clamped else {}
        with torch.enable_grad():
            groups = self.pairs(z.detach().requires_grad_(), label)
            groups = groups[:1] if self.others.across is None else groups  # of many views two, of two sources both
            metrics |= mean_of([self._curves(pairs, label) for pairs in groups])
        return metrics

    def _curves(self, pairs: Pairs, label: Tensor | None) -> dict[str, Tensor]:
        metrics = push_ratio(pairs, self.per_anchor)
        if label is not None and bool((label >= 0).all()):
            metrics |= false_negative_metrics(
                pairs,
                per_anchor=self.per_anchor,
                log_negative_mass=self.log_negative_mass,
                log_positive=self.log_positive,
            )
        return metrics


def _found(value: object) -> str:
    """What a loss of one's own returned: the shape of a tensor, else its type."""
    return str(tuple(value.shape)) if isinstance(value, Tensor) else type(value).__name__


def mean_over_anchors(loss: Loss, value: Tensor, pairs: Pairs) -> Tensor:
    """The mean of what `per_anchor` returned; ConfigError unless it is (A,)."""
    if not isinstance(value, Tensor) or value.shape != pairs.anchors.shape[:1]:
        raise ConfigError(
            f"{loss.name}.per_anchor must return (A,) = ({len(pairs.anchors)},), one value for each anchor, "
            f"got {_found(value)}: try it without .mean() and .item(), or with .squeeze(1)"
        )
    return value.mean()


class SupervisedContrastiveLoss(Loss):
    """A contrastive loss with labels: every view is an anchor, images of its class are its positives.

    Args:
        temperature: t > 0.

    Raises:
        ConfigError: an argument out of range.
    """

    needs_label = True
    takes: tuple[str, ...] = ("both", "first", "keys", "memory")
    positive_relation: Relation = staticmethod(positive)  # the pairs that attract an anchor

    def __init__(self, *, temperature: float = 0.5) -> None:
        super().__init__()
        check_temperature(temperature)
        self.temperature: float | Tensor = temperature  # a tensor if a loop learns it

    @abstractmethod
    def per_anchor(self, pairs: Pairs) -> Tensor:
        """(A,): the loss of each anchor; 0 for an anchor without positives, which stays in the mean."""

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice) -> Tensor:
        groups = self.pairs(z, label, bias, anchors)
        values = [mean_over_anchors(self, self.per_anchor(pairs), pairs) for pairs in groups]
        return values[0] if len(values) == 1 else torch.stack(values).mean()

    def pairs(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice = slice(None)) -> list[Pairs]:
        """All pairs of the batch, or those of each direction; the loss is the mean over them."""
        return _pairs(self, [z], label, bias, anchors, anchor_views=z.shape[1], negatives=other_class)

    def diagnostics(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        """{pairs/without_positives: fraction of anchors that have none and so contribute 0, pairs/push_ratio:
        repulsion per attraction}."""
        with torch.enable_grad():
            groups = self.pairs(z.detach().requires_grad_(), label, bias)
            ratio = mean_of([push_ratio(pairs, self.per_anchor) for pairs in groups])
        without = torch.stack([(pairs.count(self.positive_relation) == 0).float().mean() for pairs in groups]).mean()
        return {"pairs/without_positives": without, **ratio}


def _pairs(
    loss: SelfSupervisedLoss | SupervisedContrastiveLoss,
    groups: list[Tensor],
    label: Tensor | None,
    bias: Tensor | None,
    anchors: slice,
    *,
    anchor_views: int,
    negatives: Relation,
) -> list[Pairs]:
    """The pairs of each direction of each group of views."""
    return [
        Pairs(
            views,
            temperature=loss.temperature,
            anchor_views=min(anchor_views, views.shape[1]),
            label=label,
            bias=bias,
            anchor_images=anchors,
            tiling=loss.tiling,
            negatives=negatives,
            push=loss.push,
            others=others,
        )
        for group in groups
        for views, others in loss.others.directions(group)
    ]
