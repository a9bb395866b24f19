"""Linear probes as in the released code of three papers: by Adam, by SGD, and trained along with the encoder."""

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive.augmentation.compose import Compose
from contrastive.augmentation.crop import RandomResizedCrop
from contrastive.errors import check_above, check_at_least, check_between, naming
from contrastive.evaluator.base import Evaluator, FeatureSets, Scores, StepObserver
from contrastive.evaluator.probes import BestEpoch, accuracies, linear_layer, train_linear
from contrastive.seeding import generator


@dataclass(kw_only=True)
class AdamProbe(Evaluator):
    """Test accuracy of a linear layer trained by Adam on augmented images (Chuang et al. 2020, released code).

    Features as the encoder gives them, cross-entropy, the run's own augmentation (one view), no schedule, last epoch.
    The encoder is frozen in eval mode. The released script leaves BatchNorm in training mode while the layer learns, so
    the running statistics of its "frozen" encoder drift; that is not imitated.

    Args:
        lr: of Adam, above 0.
        weight_decay: L2, at least 0.
        epochs: at least 1.
        batch_size: at least 1.

    Raises:
        ConfigError: an argument out of range, or features without images.
    """

    lr: float = 1e-3
    weight_decay: float = 1e-6
    epochs: int = 100
    batch_size: int = 512
    every: int = 0
    before_training = False  # it costs as much as `epochs` epochs without backward
    reads_training = False
    reads_images = True

    def __post_init__(self) -> None:
        check_above("evaluator.adam_probe.lr", self.lr, 0, example=1e-3)
        check_at_least("evaluator.adam_probe.weight_decay", self.weight_decay, 0, example=1e-6)
        check_at_least("evaluator.adam_probe.epochs", self.epochs, 1, example=100)
        check_at_least("evaluator.adam_probe.batch_size", self.batch_size, 1, example=512)
        self.protocol = (
            f"linear layer on frozen features, Adam lr {self.lr:g} weight decay {self.weight_decay:g}, {self.epochs} "
            f"epochs of batches of {self.batch_size}, training augmentation on, last probe epoch (Chuang et al. 2020); "
            "last epoch"
        )

    def __call__(self, features: FeatureSets) -> Scores:
        for scores in train_linear(
            features,
            optimizer=lambda layer: torch.optim.Adam(layer, lr=self.lr, weight_decay=self.weight_decay),
            epochs=self.epochs,
            batch_size=self.batch_size,
            name="adam_probe",
        ):
            last = scores
        return Scores(test=accuracies(last, features.test.label), predictions={"": last.argmax(1)})


@dataclass(kw_only=True)
class SGDProbe(Evaluator):
    """Test accuracy of a linear layer trained by SGD on cropped and flipped images (Khosla et al. 2020, released code).

    Features as the frozen encoder in eval mode gives them, cross-entropy, a learning rate that falls by steps. The
    published metric is that of the best test epoch; it is `best_test_top1`, selected on the test split, and the metric
    of the last probe epoch, `top1`, stands beside it.

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
        ConfigError: an argument out of range, or features without images.
    """

    lr: float = 5.0
    momentum: float = 0.9
    weight_decay: float = 0.0
    epochs: int = 100
    batch_size: int = 512
    milestones: tuple[int, ...] = (60, 75, 90)
    decay: float = 0.2
    scale: tuple[float, float] = (0.2, 1.0)
    flip: float = 0.5
    every: int = 0
    before_training = False  # it costs as much as `epochs` epochs without backward
    reads_training = False
    reads_images = True

    def __post_init__(self) -> None:
        check_above("evaluator.sgd_probe.lr", self.lr, 0, example=5.0)
        check_between("evaluator.sgd_probe.momentum", self.momentum, 0, 1, exclude=(1,), example=0.9)
        check_at_least("evaluator.sgd_probe.weight_decay", self.weight_decay, 0, example=0)
        check_at_least("evaluator.sgd_probe.epochs", self.epochs, 1, example=100)
        check_at_least("evaluator.sgd_probe.batch_size", self.batch_size, 1, example=512)
        check_above("evaluator.sgd_probe.decay", self.decay, 0, example=0.2)
        with naming("augmentation.ops.crop", "evaluator.sgd_probe"):
            self.augmentation = Compose(ops={"crop": RandomResizedCrop(scale=self.scale, flip=self.flip)})
        self.protocol = (
            f"linear layer on frozen features, SGD lr {self.lr:g} momentum {self.momentum:g}, {self.epochs} epochs of "
            f"batches of {self.batch_size}, lr x {self.decay:g} after {', '.join(map(str, self.milestones))}, crop and "
            "flip (Khosla et al. 2020); best_test figures: best test epoch, as published; top1, top5: last probe epoch"
        )

    def lr_factor(self, epoch: int) -> float:
        """The factor on lr in a probe epoch, counted from 0."""
        return float(self.decay ** sum(epoch >= milestone for milestone in self.milestones))

    def __call__(self, features: FeatureSets) -> Scores:
        best = BestEpoch()
        for scores in train_linear(
            features,
            optimizer=lambda layer: torch.optim.SGD(
                layer, lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay
            ),
            augmentation=self.augmentation,
            lr_factor=self.lr_factor,
            epochs=self.epochs,
            batch_size=self.batch_size,
            name="sgd_probe",
        ):
            best.update(scores, features.test.label)
            last = scores
        return best.results(last, features.test.label)


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
    every = 1  # the best epoch is searched among all: not a setting

    def __post_init__(self) -> None:
        check_above("evaluator.online_probe.lr", self.lr, 0, example=1e-3)
        check_at_least("evaluator.online_probe.weight_decay", self.weight_decay, 0, example=0)
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
