"""What is minimised: a loss plus weighted regularizers."""

from typing import Any

import torch
from torch import Tensor


class Objective:
    """loss(z or h) + Σ regularizers, each on the station it declares in `reads`: features h or projections z.

    Called as `objective(h, z, label, bias)` with h (B, V, F), z (B, V, D); returns a scalar. Each term weighs itself.
    """

    def __init__(self, loss: Any, regularizers: list[Any]) -> None:
        self.loss = loss
        self.regularizers = regularizers

    def __call__(self, h: Tensor, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
        total = self.loss(self._station(self.loss, h, z), label, bias)
        for term in self.regularizers:
            total = total + term(self._station(term, h, z), label, bias)
        return total

    @torch.no_grad()
    def diagnostics(self, h: Tensor, z: Tensor, label: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        """The loss's own scalars for one batch, averaged over the ways it looks at its views."""
        looks = [self.loss.diagnostics(p) for p in self.loss.pairs(self._station(self.loss, h, z), label, bias)]
        return {key: torch.stack([look[key] for look in looks]).mean() for key in looks[0]}

    @staticmethod
    def _station(term: Any, h: Tensor, z: Tensor) -> Tensor:
        return h if term.reads == "features" else z
