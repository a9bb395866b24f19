"""A second loss, weighted: how papers add a little cross-entropy to a contrastive loss."""

from torch import Tensor

from contrastive.refusal import require
from contrastive.term import Term
from contrastive.types import WHOLE, Share, Split


class Weighted(Term):
    """weight · term.

    Args:
        weight: at least 0. term: any loss; it is read and prepared as it declares.

    Raises:
        Refusal: a negative weight.
    """

    def __init__(self, *, weight: float, term: Term) -> None:
        super().__init__()
        require(weight >= 0, f"weight must be at least 0, got {weight}: try regularizer.weight=0.01")
        self.weight, self.term = weight, term
        self.reads, self.min_views = term.reads, term.min_views
        self.needs_label, self.needs_bias = term.needs_label, term.needs_bias
        self.not_invariant_to = term.not_invariant_to

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        self.term.prepare(train, n_classes=n_classes, dim=dim)

    def compute_share(self, z: Tensor, label: Tensor | None, bias: Tensor | None, share: Share) -> Tensor:
        return self.weight * self.term.compute_share(z, label, bias, share)

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
        return self.compute_share(z, label, bias, WHOLE)
