"""Linear probes as in the released code of three papers: by Adam, by SGD, and trained along with the encoder."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive.augmentation.base import Augmentation
from contrastive.augmentation.compose import Compose
from contrastive.augmentation.crop import RandomResizedCrop
from contrastive.evaluator.base import Evaluator, FeatureSets, Scores, StepObserver
from contrastive.evaluator.probes import BestEpoch, accuracies, linear_layer, progress
from contrastive.seeding import generator


@dataclass(kw_only=True)
class LayerOnViews(Evaluator, ABC):
    """A linear layer trained with cross-entropy on one augmented view of each image, anew in each epoch.

    Features are as the frozen encoder in eval mode gives them.
    """

    before_training = False  # it costs as much as `epochs` epochs without backward
    reads_training = False
    reads_images = True

    epochs: int = 100
    batch_size: int = 512
    augmentation: Augmentation | None = field(default=None, init=False)  # None = that of the run

    @abstractmethod
    def optimizer(self, layer: list[nn.Parameter]) -> torch.optim.Optimizer:
        """That of the layer's parameters."""

    def lr_factor(self, epoch: int) -> float:
        """The factor on the learning rate in an epoch, counted from 0."""
        return 1.0

    def trained(self, features: FeatureSets, name: str) -> Iterator[Tensor]:
        """The scores (N, C) of the test images after each epoch.

        Args:
            name: of the evaluator.

        Raises:
            ConfigError: there are only features.
        """
        images, device = features.images_for(name), features.test.h.device
        rng = generator("cpu", "linear layer")
        layer = linear_layer(features.test.h.shape[1], features.n_classes, rng=rng, device=device)
        update = self.optimizer(list(layer.parameters()))
        base = [group["lr"] for group in update.param_groups]
        with progress(self.epochs, name, unit="epoch") as bar:
            for epoch in range(self.epochs):
                for group, lr in zip(update.param_groups, base, strict=True):
                    group["lr"] = lr * self.lr_factor(epoch)
                train = images.augmented(epoch, self.augmentation)
                order = torch.randperm(len(train.h), generator=generator("cpu", "probe order", epoch)).to(device)
                for index in order.split(self.batch_size):
                    update.zero_grad()
                    F.cross_entropy(layer(train.h[index]), train.label[index]).backward()
                    update.step()
                bar.update()
                with torch.no_grad():
                    yield layer(features.test.h)


@dataclass(kw_only=True)
class AdamProbe(LayerOnViews):
    """Test accuracy of a linear layer trained by Adam on augmented images (Chuang et al. 2020, released code).

    The run's own augmentation (one view), no schedule, last epoch. The released script leaves BatchNorm in training
    mode while the layer learns, so the running statistics of its "frozen" encoder drift; that is not imitated.

    Args:
        lr: of Adam, above 0.
        weight_decay: L2, at least 0.
        epochs: at least 1.
        batch_size: at least 1.

    Raises:
        ConfigError: features without images.
    """

    lr: float = 1e-3
    weight_decay: float = 1e-6

    def __post_init__(self) -> None:
        self.protocol = (
            f"linear layer on frozen features, Adam lr {self.lr:g} weight decay {self.weight_decay:g}, {self.epochs} "
            f"epochs of batches of {self.batch_size}, training augmentation on, last probe epoch (Chuang et al. 2020); "
            "last epoch"
        )

    def optimizer(self, layer: list[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.Adam(layer, lr=self.lr, weight_decay=self.weight_decay)

    def __call__(self, features: FeatureSets) -> Scores:
        *_, last = self.trained(features, "adam_probe")
        return Scores(test=accuracies(last, features.test.label), predictions={"": last.argmax(1)})


@dataclass(kw_only=True)
class SGDProbe(LayerOnViews):
    """Test accuracy of a linear layer trained by SGD on cropped and flipped images (Khosla et al. 2020, released code).

    The learning rate falls by steps. The published metric is that of the best test epoch; it is `best_test_top1`,
    selected on the test split, and the metric of the last probe epoch, `top1`, stands beside it.

    Args:
        lr: of SGD, above 0: 5 for SupCon, 1 for SimCLR.
        momentum: in [0, 1).
        weight_decay: at least 0.
        epochs: at least 1.
        batch_size: at least 1.
        milestones: probe epochs after which lr is multiplied by `decay`.
        scale: (least, most) share of the area that a crop shows.
        flip: probability.

    Raises:
        ConfigError: features without images.
    """

    lr: float = 5.0
    momentum: float = 0.9
    weight_decay: float = 0.0
    milestones: tuple[int, ...] = (60, 75, 90)
    decay: float = 0.2
    scale: tuple[float, float] = (0.2, 1.0)
    flip: float = 0.5

    def __post_init__(self) -> None:
        self.augmentation = Compose(ops={"crop": RandomResizedCrop(scale=self.scale, flip=self.flip)})
        self.protocol = (
            f"linear layer on frozen features, SGD lr {self.lr:g} momentum {self.momentum:g}, {self.epochs} epochs of "
            f"batches of {self.batch_size}, lr x {self.decay:g} after {', '.join(map(str, self.milestones))}, crop and "
            "flip (Khosla et al. 2020); best_test figures: best test epoch, as published; top1, top5: last probe epoch"
        )

    def optimizer(self, layer: list[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD(layer, lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay)

    def lr_factor(self, epoch: int) -> float:
        return float(self.decay ** sum(epoch >= milestone for milestone in self.milestones))

    def __call__(self, features: FeatureSets) -> Scores:
        best = BestEpoch()
        for scores in self.trained(features, "sgd_probe"):
            best.update(scores, features.test.label)
        return best.results(scores, features.test.label)


@dataclass(kw_only=True)
class _Layer:
    """The layer in training."""

    linear: nn.Linear
    optimizer: torch.optim.Optimizer
    best: BestEpoch = field(default_factory=BestEpoch)


@dataclass(kw_only=True)
class OnlineProbe(Evaluator, StepObserver):
    """Test accuracy of a linear layer that learns from the training batches (Barbano et al. 2023, released code).

    At every step of pretraining, Adam minimizes the cross-entropy of the layer on the L2-normalized features of view 0;
    no gradient reaches the encoder. Every epoch is tested. The published metric is that of the best test epoch; it is
    `best_test_top1`, selected on the test split, and the metric of the last epoch, `top1`, stands beside it. It reports
    nothing before the first step, and nothing if no image is labeled.

    Args:
        lr: of Adam, above 0.
        weight_decay: L2, at least 0.
    """

    reads_training = False

    lr: float = 1e-3
    weight_decay: float = 0.0
    every: int = field(default=1, init=False)  # the best epoch is searched among all: not a setting

    def __post_init__(self) -> None:
        self.layer: _Layer | None = None
        self.protocol = (
            f"linear layer on L2-normalized features, trained along with the encoder by its own Adam lr {self.lr:g} "
            f"weight decay {self.weight_decay:g}, no gradient to the encoder (Barbano et al. 2023); best_test figures: "
            "best test epoch, as published; top1, top5: last epoch"
        )

    def prepare(self, *, dim: int, n_classes: int, device: torch.device, seed: int) -> None:
        linear = linear_layer(dim, n_classes, rng=generator("cpu", seed, "trained along"), device=device)
        optimizer = torch.optim.Adam(linear.parameters(), lr=self.lr, weight_decay=self.weight_decay)
        self.layer = _Layer(linear=linear, optimizer=optimizer)

    def observe(self, h: Tensor, label: Tensor) -> None:
        assert self.layer is not None
        scores = self.layer.linear(F.normalize(h[:, 0].float(), dim=1))
        loss = F.cross_entropy(scores, label, ignore_index=-1, reduction="sum") / (label >= 0).sum().clamp(min=1)
        self.layer.optimizer.zero_grad()
        loss.backward()
        self.layer.optimizer.step()

    @torch.no_grad()
    def __call__(self, features: FeatureSets) -> Scores:
        if self.layer is None or not self.layer.optimizer.state:  # no step yet
            return Scores()
        test, best = features.test, self.layer.best
        scores = self.layer.linear(F.normalize(test.h, dim=1))
        best.update(scores, test.label)
        return best.results(scores, test.label)

    def state(self) -> dict[str, Any]:
        assert self.layer is not None
        return {
            "linear": self.layer.linear.state_dict(),
            "optimizer": self.layer.optimizer.state_dict(),
            "best_top1": self.layer.best.top1,
            "best_predictions": self.layer.best.predictions,
        }

    def load(self, state: dict[str, Any]) -> None:
        assert self.layer is not None
        self.layer.linear.load_state_dict(state["linear"])
        self.layer.optimizer.load_state_dict(state["optimizer"])
        predictions = state["best_predictions"]
        if predictions is not None:
            predictions = predictions.to(self.layer.linear.weight.device)
        self.layer.best = BestEpoch(state["best_top1"], predictions)
