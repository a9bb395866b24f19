"""The encoder and its images, for evaluators that train every weight."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from contrastive.augmentation.base import Augmentation
from contrastive.evaluator.base import TrainableEncoder
from contrastive.types import Data, Split


class EncoderWithImages(TrainableEncoder):
    """Copies of an encoder, and the images of the splits that probes use.

    Args:
        normalize: uint8 images, or float views in [0, 1] → the encoder's input.
    """

    def __init__(self, encoder: nn.Module, data: Data, normalize: Callable[[Tensor], Tensor]) -> None:
        self.encoder, self.normalize = encoder, normalize
        self.device = next(encoder.parameters()).device
        val = data.pretrain if data.probe_val_split is None else data.probe_val_split
        self.splits: dict[str, tuple[Split, Tensor | None]] = {
            "train": (data.pretrain, data.probe_train),
            "val": (val, data.probe_val_index),
            "test": (data.test, None),
        }

    def copy(self) -> nn.Module:
        return copy.deepcopy(self.encoder).eval()

    def images(self, split: str, rows: Tensor) -> Tensor:
        return self.normalize(self._read(split, rows))

    def views(self, rows: Tensor, augmentation: Augmentation, rng: torch.Generator) -> Tensor:
        image = self._read("train", rows)
        parameters = augmentation.draw(len(image), image.shape[-2], image.shape[-1], rng)
        return self.normalize(augmentation.apply(image, parameters))

    def _read(self, split: str, rows: Tensor) -> Tensor:
        """uint8 images of a split, on the encoder's device."""
        images, index = self.splits[split]
        rows = rows.cpu() if index is None else index.cpu()[rows.cpu()]
        return images.image[rows.to(images.image.device)].to(self.device)
