"""Extract the features of a frozen encoder, each process its part of the images."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from contrastive.augmentation.base import Augmentation
from contrastive.distributed.process import shard, world_size
from contrastive.errors import ConfigError
from contrastive.evaluator.base import FeatureSets, Images
from contrastive.gathering import gather
from contrastive.seeding import generator
from contrastive.training.loader import uploaded
from contrastive.types import Batch, Data, Features, Split, move

CHUNK = 500  # images per forward pass: enough to fill a device, few enough to fit beside a training run


def at_once(image: Tensor) -> int:
    """Images (N, K, h, w) per forward pass: `CHUNK`, and of larger ones than 64 pixels as many as have its pixels."""
    return max(1, min(CHUNK, CHUNK * 64**2 // (image.shape[-2] * image.shape[-1])))


@torch.no_grad()
def extract(
    encoder: nn.Module,
    split: Split,
    normalize: Callable[[Tensor], Tensor],
    index: Tensor | None = None,
    *,
    dtype: torch.dtype = torch.float32,
) -> Features:
    """Encode images in eval mode.

    Several processes encode a contiguous part each and exchange the features, so that all of them hold all.

    Args:
        normalize: images → the encoder's input.
        index: (n,) int64, the images to encode; None = all.
        dtype: of the encoder's arithmetic, whatever surrounds the call: float32, or bfloat16 as autocast has it.

    Returns:
        Features with h (n, F) float32 on the encoder's device, see `home`. The encoder's mode is restored.

    Raises:
        ConfigError: a feature is not finite.
    """
    device = next(encoder.parameters()).device
    index = torch.arange(len(split)) if index is None else index
    local = own_part(len(index))
    images = index.cpu()[local].to(split.image.device)  # copied here, once: a copy in each chunk waits for the device
    chunk = at_once(split.image)
    read = (Batch(split.image[image], split.label[image]) for image in images.split(chunk))
    with frozen(encoder), torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32):
        chunks = [encoder(normalize(batch.image)).float() for batch in on_device(read, split, device)]
    device = home(device)
    label, bias = split.label.to(device), None if split.bias is None else split.bias.to(device)
    h, index = gather(torch.cat(chunks))[: len(index)].to(device), index.to(device)
    if not h.isfinite().all():
        raise ConfigError("the encoder gives features that are not finite: try a smaller optimizer.lr and rerun=true")
    return Features(h, label[index], None if bias is None else bias[index])


def home(device: torch.device) -> torch.device:
    """Where features of an encoder on this device are judged: there, but for Apple's GPU, which lacks the float64 of
    probes."""
    return torch.device("cpu") if device.type == "mps" else device


def own_part(n: int) -> Tensor:
    """(m,) int64, which of n images this process encodes: a contiguous part, as many in each; the last one repeats."""
    per_process = -(-n // world_size())  # rounded up
    rows = torch.arange(per_process * world_size()).clamp(max=n - 1)
    return rows[shard().of(len(rows))]


def on_device(batches: Iterator[Batch], split: Split, device: torch.device) -> Iterator[Batch]:
    """Batches of a split on a device, read and copied ahead unless the split lies there."""
    return batches if split.image.device == device else uploaded(batches, device)


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """The module is in eval mode within, and in the mode that it had afterwards."""
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)


@dataclass(frozen=True, kw_only=True)
class EncodedImages(Images):
    """All that evaluators read of an encoder: `feature_sets`, views of its images, and other datasets.

    Draws depend on the seed and on the number of the epoch or batch alone. Several processes encode a part each, and
    all of them get the whole.

    Attributes:
        seed: that of the run.
        load_other: loads the dataset of a name, with images of the same side.
        dtype: of the encoder's arithmetic, float32 or bfloat16; the features are float32.
    """

    seed: int
    load_other: Callable[[str], Data]
    dtype: torch.dtype = torch.float32

    def feature_sets(
        self, classifier: Callable[[Tensor], Tensor] | None = None, *, with_training: bool = True
    ) -> FeatureSets:
        """Features of every split; a validation image that is a training image is encoded once.

        Unlabeled training images are left out: no evaluator reads them. Without any label `bank`, `train` and `val`
        are empty.

        Args:
            classifier: (N, F) → (N, C) logits, if a loss trained one along.
            with_training: whether to encode training images; else `bank`, `train` and `val` are empty.
        """
        data, (_, labeled) = self.data, self.rows("bank")
        test = self._extract(data.test)
        train = val = bank = Features.empty(test.h.shape[1], test.h.device)
        if with_training and len(labeled):
            bank = self._extract(data.pretrain, labeled)
            position = torch.full((len(data.pretrain),), -1).index_put_((labeled,), torch.arange(len(labeled)))
            position = position.to(bank.h.device)
            train = bank[position[data.probe_train.to(bank.h.device)]]
            index = data.probe_val_index
            val = self._extract(data.probe_val) if index is None else bank[position[index.to(bank.h.device)]]
        return FeatureSets(
            bank=bank,
            train=train,
            val=val,
            test=test,
            n_classes=len(data.classes),
            n_biases=len(data.biases),
            classes=data.classes,
            biases=data.biases,
            classifier=classifier,
            images=self,
        )

    def _extract(self, split: Split, index: Tensor | None = None) -> Features:
        return extract(self.encoder, split, self.normalize, index, dtype=self.dtype)

    def transfer(self, dataset: str) -> FeatureSets:
        return replace(self, data=self.load_other(dataset)).feature_sets()

    @torch.no_grad()
    def encode(
        self, split: str, batches: Iterable[Tensor], augmentation: Augmentation | None = None
    ) -> Iterator[Features]:
        images, index = self.rows(split)
        device, (height, width) = self.device, images.image.shape[-2:]

        def read() -> Iterator[Batch]:  # this process's images, and the labels of all
            for batch in batches:
                rows = index[move(batch, index.device)]
                yield Batch(images.image[rows[move(own_part(len(rows)), rows.device)]], images.label[rows])

        with frozen(self.encoder):
            for i, batch in enumerate(on_device(read(), images, device)):
                n, x = len(batch.label), batch.image
                if augmentation is not None:
                    drawn = augmentation.draw(n, height, width, generator(device, self.seed, "probe views", i))
                    own = move(own_part(n), device)
                    x = augmentation.apply(
                        x, {name: {key: value[own] for key, value in values.items()} for name, values in drawn.items()}
                    )
                with torch.autocast(device.type, dtype=self.dtype, enabled=self.dtype != torch.float32):
                    h = self.encoder(self.normalize(x)).float()
                yield Features(gather(h)[:n].to(home(device)), batch.label.to(home(device)))
