"""Features of augmented training images, for probes that train on them."""

from collections.abc import Callable

from torch import Tensor, nn

from contrastive.augmentation.base import Augmentation
from contrastive.seeding import generator
from contrastive.training.features import extract_transformed
from contrastive.types import Features, Split


class AugmentedFeatures:
    """`features(epoch)` encodes one augmented view of each image, with the frozen encoder in eval mode.

    The draws depend on (seed, epoch) alone. Nothing is stored: an epoch costs one pass of the encoder over the images.

    Args:
        index: (n,) int64, the images of `split` to encode, in this order.
        augmentation: the one of the run, used when none is given with the epoch.
        normalize: float views in [0, 1] → the encoder's input.
    """

    def __init__(
        self,
        encoder: nn.Module,
        split: Split,
        index: Tensor,
        *,
        augmentation: Augmentation,
        normalize: Callable[[Tensor], Tensor],
        seed: int,
    ) -> None:
        self.encoder, self.split, self.index = encoder, split, index
        self.augmentation, self.normalize, self.seed = augmentation, normalize, seed

    def __call__(self, epoch: int, augmentation: Augmentation | None = None) -> Features:
        chosen = augmentation or self.augmentation
        device = next(self.encoder.parameters()).device
        rng = generator(device, self.seed, "augmented features", epoch)
        height, width = self.split.image.shape[-2:]
        drawn = chosen.draw(len(self.index), height, width, rng)

        def transform(image: Tensor, rows: Tensor) -> Tensor:
            parameters = {name: {key: value[rows] for key, value in values.items()} for name, values in drawn.items()}
            return self.normalize(chosen.apply(image, parameters))

        return extract_transformed(self.encoder, self.split, transform, self.index)
