"""The objective: a loss plus regularizers, of one or two batches that several processes may share."""

from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive.distributed.process import gather, shard, world_size
from contrastive.errors import ConfigError
from contrastive.loss.base import Loss
from contrastive.types import Split, widen


class Embedded(NamedTuple):
    """A batch after the network: what the terms of one stream read.

    `outputs` has the tensors of the network by the names that terms declare in `input`: features (B, V, F),
    projections (B, V, D), map (B, V, C, H, W); label and bias are (B,).
    """

    outputs: dict[str, Tensor]
    label: Tensor
    bias: Tensor | None

    def detach(self) -> "Embedded":
        """The same without gradient."""
        return self._replace(outputs={name: value.detach() for name, value in self.outputs.items()})


class UnitLinear(nn.Linear):
    """A linear map of features scaled to length 1."""

    def forward(self, h: Tensor) -> Tensor:
        return super().forward(F.normalize(h, dim=-1))


class Objective(nn.Module):
    """loss + Σ regularizers, each on the tensor it declares in `input` and on the batch it declares in `stream`.

    Called as `objective(main, uniform)`; returns a scalar. Each term weighs itself. If a term reads logits, one linear
    `classifier` on the features is trained jointly for all that do.

    Streams: `main` is the batch that the sampler draws, in all its views. Hong & Yang 2021 compute the cross-entropy
    beside their contrastive loss on another batch, drawn uniformly and shown without augmentation in one view: a prior
    p(y|b) counted on the training data holds for that batch and not for a resampled one. A term asks for it with
    `stream = "uniform"`. Only then does the loader draw it, the step sends it through the network in a forward pass of
    its own (in train mode, before the main batch), and an epoch is one pass of the uniform stream over the data, as in
    the released code. Its draws depend on (seed, "uniform", epoch) alone; it is sharded, gathered, cut into chunks
    and compiled as the main batch is.

    With several processes each passes its shard of the batches and gets the loss of its own anchors among all
    candidates: the mean over processes is the loss of the whole batch, and so are the gradients (`average_gradients`).

    Args:
        train: the training data, which terms may take priors from.
        feature_dim, projection_dim: F and D.
        map_dim: channels of the encoder's map; None = it offers none.

    Raises:
        ConfigError: a term reads a map and there is none, or terms disagree about the classifier or the uniform batch.
    """

    def __init__(
        self,
        loss: Loss,
        regularizers: list[Loss],
        *,
        train: Split,
        n_classes: int,
        feature_dim: int,
        projection_dim: int,
        map_dim: int | None = None,
    ) -> None:
        super().__init__()
        self.loss, self.regularizers = loss, nn.ModuleList(regularizers)
        self.classifier: nn.Linear | None = None
        wishes = {term.unit_features for term in self.terms if term.input == "logits"}
        if len(wishes) > 1:
            raise ConfigError("one classifier reads plain features or features of length 1: try loss.normalize=false")
        if wishes:
            self.classifier = (UnitLinear if wishes.pop() else nn.Linear)(feature_dim, n_classes)
        dims = {"features": feature_dim, "projections": projection_dim, "logits": n_classes, "map": map_dim}
        for term in self.terms:
            dim = dims[term.input]
            if dim is None:
                raise ConfigError(
                    f"{term.name} reads a map from the middle of the encoder and this encoder offers none: "
                    "try encoder=simple_convnet"
                )
            term.prepare(train, n_classes=n_classes, dim=dim)

    @property
    def terms(self) -> list[Loss]:
        """The loss, then the regularizers."""
        return [self.loss, *(cast(Loss, term) for term in self.regularizers)]

    def reads(self, stream: str) -> tuple[str, ...]:
        """Names of the network's outputs that terms of a stream need."""
        return tuple(sorted({"features" if name == "logits" else name for name in self._inputs(stream)}))

    def uniform_batch_size(self, batch_size: int) -> int:
        """Images of the uniform batch, 0 if no term reads it; `batch_size` is that of the run."""
        sizes = {term.stream_batch_size or batch_size for term in self.terms if term.stream == "uniform"}
        if len(sizes) > 1:
            raise ConfigError(
                f"the uniform stream has one batch size, got {sorted(sizes)}: try regularizer.batch_size=128"
            )
        return sizes.pop() if sizes else 0

    def forward(self, main: Embedded, uniform: Embedded | None = None) -> Tensor:
        batches = {name: self._gathered(name, batch) for name, batch in self._streams(main, uniform).items()}
        values = []
        for term in self.terms:
            inputs, label, bias = batches[term.stream]
            values.append(term(inputs[term.input], label, bias, shard().of(len(label))))
        return torch.stack(values).sum()

    @property
    def adversarial_reads(self) -> tuple[str, ...]:
        """Names of the network's outputs that the second update needs; empty if no term asks for one."""
        return tuple(sorted({term.input for term in self.terms if term.is_adversarial}))

    def adversarial(self, main: Embedded) -> Tensor:
        """The scalar of the second update: Σ over adversarial terms, on the main batch embedded again."""
        outputs = {name: gather(widen(main.outputs[name])) for name in self.adversarial_reads}
        label, bias = gather(main.label), None if main.bias is None else gather(main.bias)
        values = [term.adversarial(outputs[term.input], label, bias) for term in self.terms if term.is_adversarial]
        return torch.stack(values).sum()

    def first_parameters(self) -> list[nn.Parameter]:
        """Parameters that the first update moves: the classifier, and those of terms that are not adversarial."""
        second = set(map(id, self.second_parameters()))
        return [p for p in self.parameters() if id(p) not in second]

    def second_parameters(self) -> list[nn.Parameter]:
        """Parameters that only a second update moves: those of adversarial terms.

        They are a parameter group of their own: torch's fused SGD cannot start the momentum of a part of a group.
        """
        return [p for term in self.terms if term.is_adversarial for p in term.parameters()]

    @torch.no_grad()
    def diagnostics(self, main: Embedded, uniform: Embedded | None = None) -> dict[str, Tensor]:
        """{name of the curve: scalar} of one step: each term's own and, for several terms, its value as terms/NAME."""
        batches = {name: self._with_logits(name, batch) for name, batch in self._streams(main, uniform).items()}
        metrics: dict[str, Tensor] = {}
        for term in self.terms:
            inputs, label, bias = batches[term.stream]
            metrics |= term.diagnostics(inputs[term.input], label, bias)
            if len(self.terms) > 1:
                metrics[f"terms/{term.name}"] = term(inputs[term.input], label, bias)
        return metrics

    def _inputs(self, stream: str) -> list[str]:
        """Names of the tensors that terms of a stream read, sorted: every process must gather in the same order."""
        return sorted({term.input for term in self.terms if term.stream == stream})

    def _streams(self, main: Embedded, uniform: Embedded | None) -> dict[str, Embedded]:
        return {"main": main} if uniform is None else {"main": main, "uniform": uniform}

    def _gathered(self, stream: str, batch: Embedded) -> Embedded:
        """What the terms of a stream read, of all processes together."""
        batch = self._with_logits(stream, batch)
        if world_size() == 1:
            return batch
        outputs = {name: gather(widen(batch.outputs[name])) for name in self._inputs(stream)}
        return Embedded(outputs, gather(batch.label), None if batch.bias is None else gather(batch.bias))

    def _with_logits(self, stream: str, batch: Embedded) -> Embedded:
        """The batch with logits among its outputs if a term of the stream reads them."""
        if self.classifier is None or "logits" not in self._inputs(stream):
            return batch
        h = batch.outputs["features"]
        with torch.autocast(h.device.type, enabled=False):
            return batch._replace(outputs={**batch.outputs, "logits": self.classifier(widen(h))})
