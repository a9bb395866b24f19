"""A weighted loss, used as a regularizer: papers add a little cross-entropy to a contrastive loss."""

from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.loss.base import Loss
from contrastive.types import Split


class Weighted(Loss):
    """weight · term.

    Args:
        weight: at least 0.
        term: any loss; its input, needs and checks are those of this regularizer.

    Raises:
        ConfigError: a negative weight.
    """

    def __init__(self, *, weight: float = 0.01, term: Loss) -> None:
        super().__init__()
        if not weight >= 0:
            raise ConfigError(f"weight must be at least 0, got {weight}: try regularizer.weight=0.01")
        self.weight, self.term = weight, term
        self.input, self.min_views = term.input, term.min_views
        self.needs_label, self.needs_bias = term.needs_label, term.needs_bias
        self.exempt_from = term.exempt_from

    @property
    def name(self) -> str:
        return self.term.name

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        self.term.prepare(train, n_classes=n_classes, dim=dim)

    def diagnostics(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        return self.term.diagnostics(z, label, bias)

    def check_config(self, *, batch_size: int) -> None:
        self.term.check_config(batch_size=batch_size)

    def check_batch(self, *, batch_size: int, n_views: int, has_label: bool, has_bias: bool) -> None:
        self.term.check_batch(batch_size=batch_size, n_views=n_views, has_label=has_label, has_bias=has_bias)

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice) -> Tensor:
        return self.weight * self.term.compute(z, label, bias, anchors)
