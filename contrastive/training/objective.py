"""What is minimized: a loss plus regularizers."""

from typing import cast

import torch
from torch import Tensor, nn

from contrastive.distributed.process import gather, shard
from contrastive.loss.base import Loss
from contrastive.types import Split


def widen(x: Tensor) -> Tensor:
    """Half precision as float32."""
    return x if x.dtype == torch.float64 else x.float()


class Objective(nn.Module):
    """loss + Σ regularizers, each on the station it declares in `reads`: features h, projections z, or logits.

    Called as `objective(h, z, label, bias)` with h (B, V, F), z (B, V, D); returns a scalar. Each term weighs itself.
    When a term reads logits, one linear `classifier` on the features is trained along for all that do.

    Of several processes each passes its part of the batch and gets its share of the loss of the whole one.

    Args:
        feature_dim, projection_dim: F and D. train: the training data, which terms may take priors from.
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
        if any(term.input == "logits" for term in (loss, *regularizers)):
            self.classifier = nn.Linear(feature_dim, n_classes)
        dims = {"features": feature_dim, "projections": projection_dim, "logits": n_classes}
        for term in (loss, *regularizers):
            term.prepare(train, n_classes=n_classes, dim=dims[term.input])

    def forward(self, h: Tensor, z: Tensor, label: Tensor, bias: Tensor | None) -> Tensor:
        share, stations = shard(), self.stations(h, z)
        terms = [self.loss, *(cast(Loss, term) for term in self.regularizers)]
        if share.world_size > 1:
            stations = {reads: gather(widen(stations[reads])) for reads in sorted({term.input for term in terms})}
            label, bias = gather(label), None if bias is None else gather(bias)
        values = [term(stations[term.input], label, bias, share) for term in terms]
        return torch.stack(values).sum() if len(values) > 1 else values[0]

    @torch.no_grad()
    def diagnostics(self, h: Tensor, z: Tensor, label: Tensor, bias: Tensor | None) -> dict[str, Tensor]:
        """Each term's own scalars for one batch and, when there are several, what each contributes: term_0, ..."""
        stations = self.stations(h, z)
        found: dict[str, Tensor] = {}
        terms = [cast(Loss, term) for term in (self.loss, *self.regularizers)]
        for i, term in enumerate(terms):
            found |= term.diagnostics(stations[term.input], label, bias)
            if len(terms) > 1:
                found[f"term_{i}"] = term(stations[term.input], label, bias)
        return found

    def stations(self, h: Tensor, z: Tensor) -> dict[str, Tensor]:
        """What each name in `reads` stands for."""
        if self.classifier is None:
            return {"features": h, "projections": z}
        with torch.autocast(h.device.type, enabled=False):
            return {"features": h, "projections": z, "logits": self.classifier(widen(h))}
