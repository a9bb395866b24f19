"""Linear probes as in the released code of three papers: by Adam, by SGD, and trained along with the encoder."""

import functools
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive.augmentation.compose import Compose
from contrastive.augmentation.crop import RandomResizedCrop
from contrastive.errors import check_above, check_at_least, check_between
from contrastive.evaluator.base import Evaluator, FeatureSets, Scores, StepObserver
from contrastive.evaluator.probes import BestEpoch, accuracies, linear_layer, train_linear
from contrastive.seeding import generator


class AdamProbe(Evaluator):
    """Test accuracy of a linear layer trained by Adam on augmented images (Chuang et al. 2020, released code).

    Features as the encoder gives them, cross-entropy, the run's own augmentation (one view), no schedule, last epoch.
    The encoder is frozen in eval mode. The released script leaves BatchNorm in training mode while the layer learns, so
    the running statistics of its "frozen" encoder drift; that is not imitated.

    Args:
        lr: of Adam, above 0. weight_decay: L2, at least 0. epochs, batch_size: at least 1.
        every: epochs between points of a curve; 0 = only after training.

    Raises:
        ConfigError: an argument out of range, or features without images.
    """

    before_training = False  # it costs as much as `epochs` epochs without backward

    def __init__(
        self,
        *,
        lr: float = 1e-3,
        weight_decay: float = 1e-6,
        epochs: int = 100,
        batch_size: int = 512,
        every: int = 0,
    ) -> None:
        check_above("evaluator.adam_probe.lr", lr, 0, example=1e-3)
        check_at_least("evaluator.adam_probe.weight_decay", weight_decay, 0, example=1e-6)
        check_at_least("evaluator.adam_probe.epochs", epochs, 1, example=100)
        check_at_least("evaluator.adam_probe.batch_size", batch_size, 1, example=512)
        self.lr, self.weight_decay = lr, weight_decay
        self.epochs, self.batch_size, self.every = epochs, batch_size, every
        self.protocol = (
            f"linear layer on frozen features, Adam lr {lr:g} weight decay {weight_decay:g}, {epochs} epochs of "
            f"batches of {batch_size}, training augmentation on, last probe epoch (Chuang et al. 2020); last epoch"
        )

    def __call__(self, features: FeatureSets) -> Scores:
        for scores in train_linear(
            features,
            augmentation=None,
            optimizer=functools.partial(torch.optim.Adam, lr=self.lr, weight_decay=self.weight_decay),
            lr_factor=lambda epoch: 1.0,
            epochs=self.epochs,
            batch_size=self.batch_size,
            name="adam_probe",
        ):
            last = scores
        return Scores(test=accuracies(last, features.test.label), predictions={"": last.argmax(1)})


class SGDProbe(Evaluator):
    """Test accuracy of a linear layer trained by SGD on cropped and flipped images (Khosla et al. 2020, released code).

    Features as the frozen encoder in eval mode gives them, cross-entropy, a learning rate that falls by steps. The
    published metric is that of the best test epoch; it is `best_test_top1`, selected on the test split, and the metric
    of the last probe epoch, `top1`, stands beside it.

    Args:
        lr: of SGD, above 0: 5 for SupCon, 1 for SimCLR. momentum: in [0, 1). weight_decay: at least 0.
        epochs, batch_size: at least 1. milestones: probe epochs after which lr is multiplied by `decay`.
        scale: (least, most) share of the area that a crop shows. flip: probability.
        every: epochs between points of a curve; 0 = only after training.

    Raises:
        ConfigError: an argument out of range, or features without images.
    """

    before_training = False  # it costs as much as `epochs` epochs without backward

    def __init__(
        self,
        *,
        lr: float = 5.0,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        epochs: int = 100,
        batch_size: int = 512,
        milestones: tuple[int, ...] = (60, 75, 90),
        decay: float = 0.2,
        scale: tuple[float, float] = (0.2, 1.0),
        flip: float = 0.5,
        every: int = 0,
    ) -> None:
        check_above("evaluator.sgd_probe.lr", lr, 0, example=5.0)
        check_between("evaluator.sgd_probe.momentum", momentum, 0, 1, exclude=(1,), example=0.9)
        check_at_least("evaluator.sgd_probe.weight_decay", weight_decay, 0, example=0)
        check_at_least("evaluator.sgd_probe.epochs", epochs, 1, example=100)
        check_at_least("evaluator.sgd_probe.batch_size", batch_size, 1, example=512)
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.epochs, self.batch_size, self.every = epochs, batch_size, every
        self.milestones, self.decay = tuple(milestones), decay
        self.augmentation = Compose(ops={"crop": RandomResizedCrop(scale=scale, flip=flip)})
        self.protocol = (
            f"linear layer on frozen features, SGD lr {lr:g} momentum {momentum:g}, {epochs} epochs of batches of "
            f"{batch_size}, lr x {decay:g} after {', '.join(map(str, milestones))}, crop and flip "
            "(Khosla et al. 2020); best_test figures: best test epoch, as published; top1, top5: last probe epoch"
        )

    def lr_factor(self, epoch: int) -> float:
        """The factor on lr in a probe epoch, counted from 0."""
        return float(self.decay ** sum(epoch >= milestone for milestone in self.milestones))

    def __call__(self, features: FeatureSets) -> Scores:
        best = BestEpoch()
        for scores in train_linear(
            features,
            augmentation=self.augmentation,
            optimizer=functools.partial(
                torch.optim.SGD, lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay
            ),
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
    n_steps: int = 0


class OnlineProbe(Evaluator, StepObserver):
    """Test accuracy of a linear layer that learns from the training batches (Barbano et al. 2023, released code).

    At every step of pretraining, Adam minimizes the cross-entropy of the layer on the L2-normalized features of view 0;
    no gradient reaches the encoder. Every epoch is tested. The published metric is that of the best test epoch; it is
    `best_test_top1`, selected on the test split, and the metric of the last epoch, `top1`, stands beside it. Nothing
    before the first step, and nothing when no image is labeled.

    Args:
        lr: of Adam, above 0. weight_decay: L2, at least 0.

    Raises:
        ConfigError: an argument out of range.
    """

    every = 1  # the best epoch is searched among all: not a setting

    def __init__(self, *, lr: float = 1e-3, weight_decay: float = 0.0) -> None:
        check_above("evaluator.online_probe.lr", lr, 0, example=1e-3)
        check_at_least("evaluator.online_probe.weight_decay", weight_decay, 0, example=0)
        self.lr, self.weight_decay = lr, weight_decay
        self.layer: _Layer | None = None
        self.protocol = (
            f"linear layer on L2-normalized features, trained along with the encoder by its own Adam lr {lr:g} weight "
            f"decay {weight_decay:g}, no gradient to the encoder (Barbano et al. 2023); best_test figures: best test "
            "epoch, as published; top1, top5: last epoch"
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
        self.layer.n_steps += 1

    @torch.no_grad()
    def __call__(self, features: FeatureSets) -> Scores:
        if self.layer is None or self.layer.n_steps == 0:
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
            "n_steps": self.layer.n_steps,
        }

    def load(self, state: dict[str, Any]) -> None:
        assert self.layer is not None
        self.layer.linear.load_state_dict(state["linear"])
        self.layer.optimizer.load_state_dict(state["optimizer"])
        predictions = state["best_predictions"]
        if predictions is not None:
            predictions = predictions.to(self.layer.linear.weight.device)
        self.layer.best = BestEpoch(state["best_top1"], predictions)
        self.layer.n_steps = state["n_steps"]
