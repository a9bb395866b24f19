"""The objective: a loss plus regularizers, of one batch that several processes may share."""

from typing import cast

import torch
from torch import Tensor, nn

from contrastive.distributed.process import gather, shard, world_size
from contrastive.loss.base import Loss
from contrastive.types import Split


def widen(x: Tensor) -> Tensor:
    """Half precision as float32."""
    return x if x.dtype == torch.float64 else x.float()


class Objective(nn.Module):
    """loss + Σ regularizers, each on the tensor it declares in `input`: features h, projections z, or logits.

    Called as `objective(h, z, label, bias)` with h (B, V, F), z (B, V, D); returns a scalar. Each term weighs itself.
    If a term reads logits, one linear `classifier` on the features is trained jointly for all that do.

    With several processes each passes its shard of the batch and gets the loss of its own anchors among all candidates:
    the mean over processes is the loss of the whole batch, and so are the gradients (`average_gradients`).

    Args:
        train: the training data, which terms may take priors from.
        feature_dim, projection_dim: F and D.
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
    ) -> None:
        super().__init__()
        self.loss, self.regularizers = loss, nn.ModuleList(regularizers)
        self.classifier: nn.Linear | None = None
        if any(term.input == "logits" for term in self.terms):
            self.classifier = nn.Linear(feature_dim, n_classes)
        dims = {"features": feature_dim, "projections": projection_dim, "logits": n_classes}
        for term in self.terms:
            term.prepare(train, n_classes=n_classes, dim=dims[term.input])

    @property
    def terms(self) -> list[Loss]:
        """The loss, then the regularizers."""
        return [self.loss, *(cast(Loss, term) for term in self.regularizers)]

    def forward(self, h: Tensor, z: Tensor, label: Tensor, bias: Tensor | None) -> Tensor:
        inputs = self.inputs(h, z)
        if world_size() > 1:
            names = sorted({term.input for term in self.terms})  # every process must gather in the same order
            inputs = {name: gather(widen(inputs[name])) for name in names}
            label, bias = gather(label), None if bias is None else gather(bias)
        anchors = shard().of(len(label))
        return torch.stack([term(inputs[term.input], label, bias, anchors) for term in self.terms]).sum()

    @torch.no_grad()
    def diagnostics(self, h: Tensor, z: Tensor, label: Tensor, bias: Tensor | None) -> dict[str, Tensor]:
        """{name of the curve: scalar} of one batch: each term's own and, for several terms, its value as terms/NAME."""
        inputs = self.inputs(h, z)
        metrics: dict[str, Tensor] = {}
        for term in self.terms:
            metrics |= term.diagnostics(inputs[term.input], label, bias)
            if len(self.terms) > 1:
                metrics[f"terms/{term.name}"] = term(inputs[term.input], label, bias)
        return metrics

    def inputs(self, h: Tensor, z: Tensor) -> dict[str, Tensor]:
        """The tensors that terms can read, by the name they declare in `input`."""
        if self.classifier is None:
            return {"features": h, "projections": z}
        with torch.autocast(h.device.type, enabled=False):
            return {"features": h, "projections": z, "logits": self.classifier(widen(h))}
