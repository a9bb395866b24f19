"""The objective: a loss and a regularizer, on one or two batches that several processes may share."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from contrastive.distributed.process import shard, world_size
from contrastive.errors import ConfigError
from contrastive.gathering import gather
from contrastive.loss.base import Loss, SelfSupervisedLoss
from contrastive.pairs.others import Others
from contrastive.pairs.pairs import ALONE
from contrastive.regularizer.weighted import Weighted
from contrastive.types import Split, unit, widen


class Embedded(NamedTuple):
    """A batch after the network.

    `outputs` has the tensors of the network by the names that terms declare in `input`: features (B, V, F),
    projections (B, V, D); label, bias and rows, those of the training data, are (B,). `others` is what the loss
    compares the projections with if there is a teacher.
    """

    outputs: dict[str, Tensor]
    label: Tensor
    bias: Tensor | None
    rows: Tensor | None = None
    others: Others = ALONE

    def detach(self) -> "Embedded":
        """The same without gradient."""
        return self._replace(outputs={name: value.detach() for name, value in self.outputs.items()})


class UnitLinear(nn.Linear):
    """A linear map of features scaled to length 1."""

    def forward(self, h: Tensor) -> Tensor:
        return super().forward(unit(h))


class Objective(nn.Module):
    """loss + regularizer, each on the tensor it declares in `input`; `objective(main, second)` returns a scalar.

    Each term weighs itself. If a term reads logits, one linear `classifier` on the features is trained jointly.

    `main` is the batch that the sampler draws. Hong & Yang 2021 compute the cross-entropy beside their contrastive loss
    on a `second` one, drawn uniformly and not augmented: a prior p(y|b) counted on the training data holds for it and
    not for a resampled batch. It has a forward pass of its own, in train mode before the main batch, and an epoch is
    one pass of it over the data, as in their released code.

    With several processes each passes its shard of the batches and gets the loss of its own anchors among all
    candidates: the mean over processes is the loss of the whole batch, and so are the gradients (`average_gradients`).

    Args:
        train: the training data, which terms may take priors from.
        feature_dim: F and D.
        projection_dim: F and D.

    Raises:
        ConfigError: both terms read logits, of different classifiers.
    """

    def __init__(
        self,
        loss: Loss,
        regularizer: Loss | None = None,
        *,
        train: Split,
        n_classes: int,
        feature_dim: int,
        projection_dim: int,
    ) -> None:
        super().__init__()
        self.loss, self.regularizer = loss, regularizer
        self.classifier: nn.Linear | None = None
        wishes = {term.unit_features for term in self.terms if term.input == "logits"}
        if len(wishes) > 1:
            raise ConfigError("the classifier cannot read both plain and normalized features: try loss.normalize=false")
        if wishes:
            self.classifier = (UnitLinear if wishes.pop() else nn.Linear)(feature_dim, n_classes)
        dims = {"features": feature_dim, "projections": projection_dim, "logits": n_classes}
        for term in self.terms:
            term.prepare(train, n_classes=n_classes, dim=dims[term.input])

    @property
    def terms(self) -> list[Loss]:
        """The loss, then the regularizer."""
        return [self.loss] if self.regularizer is None else [self.loss, self.regularizer]

    @property
    def has_second_batch(self) -> bool:
        """Whether the regularizer reads a batch of its own."""
        return isinstance(self.regularizer, Weighted) and self.regularizer.second_batch

    def second_batch_size(self, batch_size: int) -> int:
        """Images of the second batch, 0 without one; `batch_size` is that of the run."""
        if isinstance(self.regularizer, Weighted) and self.has_second_batch:
            return self.regularizer.second_batch_size or batch_size
        return 0

    def required_outputs(self, batch: str) -> tuple[str, ...]:
        """Names of the network's outputs that terms read of the `main` or of the `second` batch."""
        terms = [self.terms[batch == "second"]] if self.has_second_batch else self.terms
        return tuple(sorted({"features" if term.input == "logits" else term.input for term in terms}))

    def forward(self, main: Embedded, second: Embedded | None = None) -> Tensor:
        values = []
        for batch, terms in self._readers(main, second):
            whole = self._gathered(batch, terms)
            values += [self._value(term, whole, shard().of(len(whole.label))) for term in terms]
        return torch.stack(values).sum()

    def alone(self, main: Embedded) -> Tensor:
        """The value of a batch that this process does not share, without a second one."""
        batch = self._with_logits(main, self.terms)
        return torch.stack([self._value(term, batch) for term in self.terms]).sum()

    def _value(self, term: Loss, batch: Embedded, anchors: slice = slice(None)) -> Tensor:
        """That of one term; the loss alone compares with the teacher's projections, if there are any."""
        others = batch.others if term is self.loss else ALONE
        if "ids" not in term.takes:
            others = others._replace(ids=None, memory_ids=None)
        z = batch.outputs[term.input]
        value: Tensor = term(z, batch.label, batch.bias, anchors, batch.rows, **others._asdict())
        return value

    @torch.no_grad()
    def after_step(self) -> None:
        """Let the terms that keep a state take over what they saw in the last call."""
        for term in self.terms:
            term.after_step(gather)
            term.index = None

    @torch.no_grad()
    def chance(
        self, n_images: int, n_views: int, device: torch.device, *, across: str | None = None
    ) -> dict[str, float]:
        """{train/chance: the loss of a batch whose views are all alike}, log(2B - 1) for NT-Xent. Nothing beside a
        regularizer, with labels or learned parameters, or for a loss that picks no positive."""
        loss = self.loss
        if self.regularizer is not None or not isinstance(loss, SelfSupervisedLoss) or not loss.picks_positive:
            return {}
        if loss.needs_label or loss.needs_bias or loss.state_dict():
            return {}
        return {"train/chance": loss(torch.ones(n_images, n_views, 2, device=device), across=across).item()}

    @torch.no_grad()
    def diagnostics(self, main: Embedded, second: Embedded | None = None) -> dict[str, Tensor]:
        """{name of the curve: scalar} of one step: each term's own and, for two terms, its value as terms/NAME."""
        metrics: dict[str, Tensor] = {}
        for batch, terms in self._readers(main, second):
            batch = self._with_logits(batch, terms)
            for term in terms:
                term.curves = metrics  # the call adds its own
                value = self._value(term, batch)
                term.curves = term.index = None
                if self.regularizer is not None:
                    metrics[f"terms/{term.name}"] = value
        return metrics

    def _readers(self, main: Embedded, second: Embedded | None) -> list[tuple[Embedded, list[Loss]]]:
        """Each batch, and the terms that read it."""
        return [(main, self.terms)] if second is None else [(main, self.terms[:1]), (second, self.terms[1:])]

    def _gathered(self, batch: Embedded, terms: list[Loss]) -> Embedded:
        """What the terms read, of all processes together."""
        batch = self._with_logits(batch, terms)
        if world_size() == 1:
            return batch
        names = sorted({term.input for term in terms})  # every process must gather in the same order
        rows = batch.rows if any(term.reads_index for term in terms) else None
        return gathered(batch._replace(outputs={name: widen(batch.outputs[name]) for name in names}, rows=rows))

    def _with_logits(self, batch: Embedded, terms: list[Loss]) -> Embedded:
        """The batch with logits among its outputs if one of the terms reads them."""
        if self.classifier is None or all(term.input != "logits" for term in terms):
            return batch
        h = batch.outputs["features"]
        with torch.autocast(h.device.type, enabled=False):
            return batch._replace(outputs={**batch.outputs, "logits": self.classifier(widen(h))})


def gathered(batch: Embedded, first: int | None = None) -> Embedded:
    """A batch that several processes share, or its first images."""
    optional = (batch.bias, batch.rows, batch.others.keys, batch.others.ids)
    bias, rows, keys, ids = (None if x is None else gather(x)[:first] for x in optional)
    outputs = {name: gather(value)[:first] for name, value in batch.outputs.items()}
    return Embedded(outputs, gather(batch.label)[:first], bias, rows, batch.others._replace(keys=keys, ids=ids))
