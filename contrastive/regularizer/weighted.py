"""A weighted loss, used as a regularizer: papers add a little cross-entropy to a contrastive loss."""

from collections.abc import Callable

from torch import Tensor

from contrastive.errors import ConfigError, check_at_least, check_choice
from contrastive.loss.base import Loss
from contrastive.types import Split

STREAMS = ("main", "uniform")


class Weighted(Loss):
    """weight · term, on the batch of the loss or on a batch of its own.

    Args:
        weight: at least 0.
        term: any loss; its input, needs and checks are those of this regularizer.
        stream: `main` is the batch that the loss reads; `uniform` another one, drawn uniformly whatever the sampler,
            shown without augmentation in one view (Hong & Yang 2021, released code: "+CE" and "+BB").
        batch_size: images of the uniform batch, of all processes together; None = as many as the loss reads.

    Raises:
        ConfigError: an argument out of range, or a term on the uniform stream that compares views.
    """

    def __init__(
        self, *, weight: float = 0.01, term: Loss, stream: str = "main", batch_size: int | None = None
    ) -> None:
        super().__init__()
        check_at_least("weight", weight, 0, example=0.01)
        check_choice("stream", stream, STREAMS)
        self.weight, self.term = weight, term
        self.second_batch, self.second_batch_size = stream == "uniform", batch_size
        self.input, self.unit_features, self.min_views = term.input, term.unit_features, term.min_views
        self.needs_label, self.needs_bias = term.needs_label, term.needs_bias
        self.reads_index, self.exempt_from = term.reads_index, term.exempt_from

    @property
    def name(self) -> str:
        return self.term.name

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        self.term.prepare(train, n_classes=n_classes, dim=dim)

    def diagnostics(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        self.term.index = self.index
        return self.term.diagnostics(z, label, bias)

    def check_config(self, *, batch_size: int) -> None:
        self.term.check_config(batch_size=self.second_batch_size or batch_size)

    def check_batch(self, *, batch_size: int, n_views: int, has_label: bool, has_bias: bool) -> None:
        if self.second_batch and self.min_views > 1:
            raise ConfigError(
                f"{self.name} compares {self.min_views} views of an image and the uniform stream has one: "
                "try regularizer.stream=main"
            )
        if self.second_batch:
            batch_size, n_views = self.second_batch_size or batch_size, 1
        self.term.check_batch(batch_size=batch_size, n_views=n_views, has_label=has_label, has_bias=has_bias)

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice) -> Tensor:
        self.term.index = self.index
        return self.weight * self.term.compute(z, label, bias, anchors)

    def after_step(self, gather: Callable[[Tensor], Tensor]) -> None:
        self.term.after_step(gather)
