"""Loss, the base class of losses and regularizers, and SampleLoss, for which every view is a sample."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from contrastive.errors import ConfigError
from contrastive.loss._checks import check_shapes
from contrastive.pairs.tiles import Tiling
from contrastive.types import Split, widen


class Loss(nn.Module, ABC):
    """A scalar to minimize, called as `loss(z, label=None, bias=None)`.

    z is (B, V, D): `projections`, `features`, or `logits` of a jointly trained linear classifier, as declared in
    `input`; a `map`, taken out of the middle of the encoder, is (B, V, C, H, W). label and bias are (B,) int64. Half
    precision is widened to float32 (float64 is kept) and autocast is off.

    `anchors` selects images, all by default. A mean over anchors is taken over their views alone, with every image as a
    candidate; a loss that is no such mean ignores `anchors`. In both cases the mean of the values for equal slices that
    cover the batch is the value for the whole batch, and so are the gradients.

    Raises:
        ConfigError: wrong shapes, fewer views than the loss needs, or missing labels.
    """

    input = "projections"
    # `main`, or `uniform`: a batch drawn uniformly and shown without augmentation in one view (training/objective.py).
    stream = "main"
    stream_batch_size: int | None = None  # of the uniform stream; None = that of the run
    is_adversarial = False  # a second update on the same views, with `adversarial`, follows the one with the value
    unit_features = False  # input `logits`: the classifier reads features scaled to length 1
    needs_label = False
    needs_bias = False
    min_views = 1
    # Which of {image order, view order, scale, gradient, descent} does not hold (testing.check_loss), and why.
    exempt_from: dict[str, str] = {}
    # How much of the A × A matrix a contrastive loss holds at once; None = the default of the device.
    tiling: Tiling | None = None

    def forward(
        self, z: Tensor, label: Tensor | None = None, bias: Tensor | None = None, anchors: slice = slice(None)
    ) -> Tensor:
        check_shapes(z, label, bias, is_map=self.input == "map")
        self.check_batch(batch_size=len(z), n_views=z.shape[1], has_label=label is not None, has_bias=bias is not None)
        with torch.autocast(z.device.type, enabled=False):
            return self.compute(widen(z), label, bias, anchors)

    @property
    def name(self) -> str:
        """The name of this term in curves."""
        return type(self).__name__

    @abstractmethod
    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice) -> Tensor:
        """The value for one checked batch."""

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        """Compute statistics of the training data and create parameters, once, before the first step.

        dim is the last dimension of z, of a map its channels C. Parameters created here are trained. A loss whose
        `compute` needs this step raises ConfigError until it has happened.
        """

    def adversarial(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
        """The scalar of the second update, for a loss with `is_adversarial`; z is embedded anew after the first one."""
        raise NotImplementedError

    def diagnostics(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        """{name of the curve: scalar}, computed only for logged steps; names carry a group, as in `pairs/clamped`."""
        return {}

    def check_config(self, *, batch_size: int) -> None:
        """Raise ConfigError if this loss must not be trained with such a batch size."""

    def check_batch(self, *, batch_size: int, n_views: int, has_label: bool, has_bias: bool) -> None:
        """Raise ConfigError if this loss cannot be computed on such a batch."""
        if n_views < self.min_views:
            raise ConfigError(
                f"{self.name} compares {self.min_views} views of an image, got {n_views}: try n_views={self.min_views}"
            )
        if self.needs_label and not has_label:
            raise ConfigError(
                f"{self.name} needs a label for every training image and the data has images without: "
                "try loss=nt_xent loss.drop_false_negatives=false regularizer=none"
            )
        if self.needs_bias and not has_bias:
            raise ConfigError(
                f"{self.name} needs bias labels of every training image, the data lacks them: try dataset=biased_digits"
            )


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
