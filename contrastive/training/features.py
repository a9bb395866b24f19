"""Extract the features of a frozen encoder, each process its part of the images."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from contrastive.augmentation.base import Augmentation
from contrastive.distributed.process import shard
from contrastive.errors import ConfigError
from contrastive.evaluator.base import EncoderWithImages, FeatureSets
from contrastive.gathering import gather
from contrastive.seeding import generator
from contrastive.training.loader import prefetched
from contrastive.types import Data, Features, Split, move

CHUNK = 500  # images per forward pass: enough to fill a device, few enough to fit beside a training run


def extract(
    encoder: nn.Module,
    split: Split,
    normalize: Callable[[Tensor], Tensor],
    index: Tensor | None = None,
    *,
    dtype: torch.dtype = torch.float32,
) -> Features:
    """Encode images without augmentation, in eval mode; see `extract_transformed`."""
    index = torch.arange(len(split)) if index is None else index
    return extract_transformed(encoder, split, lambda image, _: normalize(image), index, dtype=dtype)


@torch.no_grad()
def extract_transformed(
    encoder: nn.Module,
    split: Split,
    transform: Callable[[Tensor, Tensor], Tensor],
    index: Tensor,
    *,
    dtype: torch.dtype = torch.float32,
) -> Features:
    """Encode images in eval mode.

    Several processes encode a contiguous part each and exchange the features, so that all of them hold all.

    Args:
        transform: uint8 (b, 3, H, W), rows (b,) → the encoder's input; rows are positions in `index`.
        index: (n,) int64, the images to encode.
        dtype: of the encoder's arithmetic, whatever surrounds the call: float32, or bfloat16 as autocast has it.

    Returns:
        Features with h (n, F) float32 on the encoder's device. The encoder's mode is restored.

    Raises:
        ConfigError: a feature is not finite.
        RuntimeError: the encoder changed while it was evaluated.
    """
    device = next(encoder.parameters()).device
    per_process = -(-len(index) // shard().world_size)  # rounded up: the last process may have fewer
    rows = torch.arange(per_process * shard().world_size).clamp(max=len(index) - 1)
    local = rows[shard().of(len(rows))]
    images = index.cpu()[local].to(split.image.device)  # copied here, once: a copy in each chunk waits for the device
    was_training, before = encoder.training, _versions(encoder)
    encoder.eval()
    with torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32):
        read = (move(split.image[image], device) for image in images.split(CHUNK))
        inputs = read if split.image.device == device else prefetched(read)
        chunks = [
            encoder(transform(image, row)).float()
            for image, row in zip(inputs, local.to(device).split(CHUNK), strict=True)
        ]
    encoder.train(was_training)
    if _versions(encoder) != before:
        raise RuntimeError("the frozen encoder changed while its features were extracted")
    label, bias = split.label.to(device), None if split.bias is None else split.bias.to(device)
    h, index = gather(torch.cat(chunks))[: len(index)], index.to(device)
    if not h.isfinite().all():
        raise ConfigError("the encoder gives features that are not finite: try a smaller optimizer.lr and rerun=true")
    return Features(h, label[index], None if bias is None else bias[index])


def extract_feature_sets(
    encoder: nn.Module,
    data: Data,
    normalize: Callable[[Tensor], Tensor],
    classifier: Callable[[Tensor], Tensor] | None = None,
    *,
    dtype: torch.dtype = torch.float32,
) -> FeatureSets:
    """Features of every split that evaluators read; a validation image that is a training image is encoded once.

    Unlabeled training images are left out: no evaluator reads them. Without any label `bank`, `train` and `val` are
    empty.

    Args:
        classifier: as of `feature_sets`.
        dtype: as of `feature_sets`.
    """
    test = extract(encoder, data.test, normalize, dtype=dtype)
    labeled = (data.pretrain.label.cpu() >= 0).nonzero().squeeze(1)
    bank = Features.empty(test.h.shape[1], test.h.device)
    if len(labeled):
        bank = extract(encoder, data.pretrain, normalize, labeled, dtype=dtype)
    position = torch.full((len(data.pretrain),), -1).index_put_((labeled,), torch.arange(len(labeled)))
    position = position.to(bank.h.device)
    train = bank[position[data.probe_train.to(bank.h.device)]]
    if data.probe_val_index is None:
        val = extract(encoder, data.probe_val, normalize, dtype=dtype)
    else:
        val = bank[position[data.probe_val_index.to(bank.h.device)]]
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
    )


def feature_sets(
    encoder: nn.Module,
    data: Data,
    normalize: Callable[[Tensor], Tensor],
    *,
    augmentation: Augmentation,
    seed: int,
    load_other: Callable[[str], Data],
    classifier: Callable[[Tensor], Tensor] | None = None,
    dtype: torch.dtype = torch.float32,
) -> FeatureSets:
    """All that evaluators read of an encoder: `extract_feature_sets`, views of its images, and other datasets.

    Args:
        normalize: images → the encoder's input.
        augmentation: those of the run.
        seed: those of the run.
        load_other: loads the dataset of a name, with images of the same side.
        classifier: (N, F) → (N, C) logits, if a loss trained one along.
        dtype: of the encoder's arithmetic, float32 or bfloat16; the features are float32.
    """

    def transfer(name: str) -> FeatureSets:
        return extract_feature_sets(encoder, load_other(name), normalize, dtype=dtype)

    labeled = (data.pretrain.label >= 0).nonzero().squeeze(1)
    return replace(
        extract_feature_sets(encoder, data, normalize, classifier, dtype=dtype),
        augmented=AugmentedFeatures(
            encoder, data.pretrain, labeled, augmentation=augmentation, normalize=normalize, seed=seed, dtype=dtype
        ),
        encoder=EncoderWithImages(encoder, data, normalize),
        transfer=transfer,
    )


def _versions(module: nn.Module) -> list[tuple[int, int]]:
    """Identity and version counter of every parameter and buffer: unchanged means that nothing was written to them."""
    return [(id(value), value._version) for value in (*module.parameters(), *module.buffers())]


@dataclass(frozen=True)
class AugmentedFeatures:
    """`features(epoch)` encodes one augmented view of each image, with the frozen encoder in eval mode.

    The draws depend on (seed, epoch) alone. Nothing is stored: an epoch costs one pass of the encoder over the images.

    Args:
        index: (n,) int64, the images of `split` to encode, in this order.
        augmentation: the one of the run, used when none is given with the epoch.
        normalize: float views in [0, 1] → the encoder's input.
        dtype: of the encoder's arithmetic.
    """

    encoder: nn.Module
    split: Split
    index: Tensor
    augmentation: Augmentation
    normalize: Callable[[Tensor], Tensor]
    seed: int
    dtype: torch.dtype = torch.float32

    def __call__(self, epoch: int, augmentation: Augmentation | None = None) -> Features:
        chosen = augmentation or self.augmentation
        device = next(self.encoder.parameters()).device
        rng = generator(device, self.seed, "augmented features", epoch)
        height, width = self.split.image.shape[-2:]
        drawn = chosen.draw(len(self.index), height, width, rng)

        def transform(image: Tensor, rows: Tensor) -> Tensor:
            parameters = {name: {key: value[rows] for key, value in values.items()} for name, values in drawn.items()}
            return self.normalize(chosen.apply(image, parameters))

        return extract_transformed(self.encoder, self.split, transform, self.index, dtype=self.dtype)
