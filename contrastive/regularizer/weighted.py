"""A second loss, weighted: how papers add a little cross-entropy to a contrastive loss."""

from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.loss.base import Loss
from contrastive.types import WHOLE, Shard, Split


class Weighted(Loss):
    """weight · term.

    Args:
        weight: at least 0. term: any loss; it is read and prepared as it declares.

    Raises:
        ConfigError: a negative weight.
    """

    def __init__(self, *, weight: float, term: Loss) -> None:
        super().__init__()
        if not weight >= 0:
            raise ConfigError(f"weight must be at least 0, got {weight}: try regularizer.weight=0.01")
        self.weight, self.term = weight, term
        self.input, self.min_views = term.input, term.min_views
        self.needs_label, self.needs_bias = term.needs_label, term.needs_bias
        self.exempt_from = term.exempt_from

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        self.term.prepare(train, n_classes=n_classes, dim=dim)

    def compute_share(self, z: Tensor, label: Tensor | None, bias: Tensor | None, share: Shard) -> Tensor:
        return self.weight * self.term.compute_share(z, label, bias, share)

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
        return self.compute_share(z, label, bias, WHOLE)
