"""The linear probe by SGD, for training images whose features fit no memory."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive.evaluator.base import Evaluator, FeatureSets, Scores, progress, read_out, shuffled
from contrastive.types import Features


@dataclass(kw_only=True)
class LinearSGD(Evaluator):
    """Test accuracy of a linear layer trained by SGD on features that are encoded batch by batch, and never kept.

    After He et al. 2020 (MoCo, §4.1) and Oquab et al. 2024 (DINOv2, linear evaluation), both recalled: a frozen encoder
    in eval mode, SGD with momentum, and a cosine to 0 over all steps (MoCo: two drops). Layers with all the learning
    rates train side by side on the same batches. The one with the highest accuracy on the validation images (the
    smallest rate of equals) reads `test` once. Unlike theirs, images are not augmented, features are standardized by
    the mean and deviation of all that were seen so far, and layers start at zero. Unlike `linear`, nothing is refitted
    on the validation images.

    Args:
        lr: learning rates to try, each above 0.
        momentum: in [0, 1).
        weight_decay: at least 0.
        epochs: passes over the labeled training images, above 0; 0.1 reads a tenth of them.
        batch_size: of all processes together, at least 1.

    Raises:
        ConfigError: features without images.
    """

    before_training = False  # it costs as much as `epochs` epochs without backward
    reads_training = False
    reads_images = True

    lr: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    momentum: float = 0.9
    weight_decay: float = 0.0
    epochs: float = 10.0
    batch_size: int = 256

    def __post_init__(self) -> None:
        self.protocol = (
            f"linear layer on standardized frozen features, SGD momentum {self.momentum:g} weight decay "
            f"{self.weight_decay:g} and cosine schedule, {self.epochs:g} epochs of batches of {self.batch_size}, "
            f"images as they are; lr of {', '.join(f'{x:g}' for x in self.lr)} chosen on probe_val; not refitted; "
            "last epoch"
        )

    def __call__(self, features: FeatureSets) -> Scores:
        images = features.images_for("linear_sgd")
        n, n_val = (len(images.rows(split)[1]) for split in ("train", "val"))
        steps = max(1, round(self.epochs * math.ceil(n / self.batch_size)))
        layers = Layers(features, lr=sorted(self.lr), momentum=self.momentum, weight_decay=self.weight_decay)
        batches = images.encode("train", islice(shuffled(n, self.batch_size), steps))
        for step, batch in enumerate(progress(steps, "linear_sgd", batches)):
            layers.step(batch, factor=(1 + math.cos(math.pi * step / steps)) / 2)
        val_top1 = layers.top1(images.encode("val", torch.arange(n_val).split(self.batch_size)))
        scores = layers.scores(features.test.h)[val_top1.index(max(val_top1))]
        return read_out(scores, features.test.label, max(val_top1))


class Layers:
    """Linear layers that see the same batches, one for each learning rate, and the standardization before them."""

    def __init__(self, features: FeatureSets, *, lr: list[float], momentum: float, weight_decay: float) -> None:
        dim, device = features.test.h.shape[1], features.test.h.device
        self.lr, self.n_seen = lr, 0
        self.sums = torch.zeros(2, dim, dtype=torch.float64, device=device)  # of h and h² over all that were seen
        self.layers = [nn.utils.skip_init(nn.Linear, dim, features.n_classes, device=device) for _ in lr]
        for layer in self.layers:
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        groups = [{"params": list(layer.parameters())} for layer in self.layers]
        self.optimizer = torch.optim.SGD(groups, lr=1.0, momentum=momentum, weight_decay=weight_decay)

    def step(self, batch: Features, *, factor: float) -> None:
        """One step of every layer, its learning rate times the factor."""
        h = batch.h.double()
        self.sums += torch.stack([h.sum(0), h.square().sum(0)])
        self.n_seen += len(h)
        for group, lr in zip(self.optimizer.param_groups, self.lr, strict=True):
            group["lr"] = lr * factor
        x = self._standardized(batch.h)
        self.optimizer.zero_grad()
        torch.stack([F.cross_entropy(layer(x), batch.label) for layer in self.layers]).sum().backward()
        self.optimizer.step()

    @torch.no_grad()
    def scores(self, h: Tensor) -> list[Tensor]:
        """(N, C) of each layer for the features (N, F)."""
        x = self._standardized(h)
        return [layer(x) for layer in self.layers]

    def top1(self, parts: Iterator[Features]) -> list[float]:
        """The accuracy of each layer over all parts, in percent."""
        n, right = 0, torch.zeros(len(self.layers), dtype=torch.long, device=self.sums.device)
        for part in parts:
            n += len(part.label)
            right += torch.stack([(scores.argmax(1) == part.label).sum() for scores in self.scores(part.h)])
        return [100 * count / n for count in right.tolist()]

    def _standardized(self, h: Tensor) -> Tensor:
        mean, square = (self.sums / self.n_seen).unbind()
        std = (square - mean.square()).clamp(min=0).sqrt().clamp(min=1e-6)
        return (h - mean.float()) / std.float()
