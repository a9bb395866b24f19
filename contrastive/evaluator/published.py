"""Linear probes as in the released code of two papers: by Adam, and trained along with the encoder."""

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive.evaluator.base import Evaluator, FeatureSets, Scores, StepObserver
from contrastive.evaluator.probes import BestEpoch, accuracies, linear_layer, progress
from contrastive.seeding import generator


@dataclass(kw_only=True)
class AdamProbe(Evaluator):
    """Test accuracy of a linear layer trained by Adam on augmented images (Chuang et al. 2020, released code).

    The run's own augmentation (one view of each image, anew in each epoch), no schedule, last epoch. Features are as
    the frozen encoder in eval mode gives them. The released script leaves BatchNorm in training mode while the layer
    learns, so the running statistics of its "frozen" encoder drift; that is not imitated.

    Args:
        lr: of Adam, above 0.
        weight_decay: L2, at least 0.
        epochs: at least 1.
        batch_size: at least 1.

    Raises:
        ConfigError: features without images.
    """

    before_training = False  # it costs as much as `epochs` epochs without backward
    reads_training = False
    reads_images = True

    lr: float = 1e-3
    weight_decay: float = 1e-6
    epochs: int = 100
    batch_size: int = 512

    def __post_init__(self) -> None:
        self.protocol = (
            f"linear layer on frozen features, Adam lr {self.lr:g} weight decay {self.weight_decay:g}, {self.epochs} "
            f"epochs of batches of {self.batch_size}, training augmentation on, last probe epoch (Chuang et al. 2020); "
            "last epoch"
        )

    def __call__(self, features: FeatureSets) -> Scores:
        images, device = features.images_for("adam_probe"), features.test.h.device
        rng = generator("cpu", "linear layer")
        layer = linear_layer(features.test.h.shape[1], features.n_classes, rng=rng, device=device)
        optimizer = torch.optim.Adam(layer.parameters(), lr=self.lr, weight_decay=self.weight_decay)
        with progress(self.epochs, "adam_probe", unit="epoch") as bar:
            for epoch in range(self.epochs):
                train = images.augmented(epoch)
                order = torch.randperm(len(train.h), generator=generator("cpu", "probe order", epoch)).to(device)
                for index in order.split(self.batch_size):
                    optimizer.zero_grad()
                    F.cross_entropy(layer(train.h[index]), train.label[index]).backward()
                    optimizer.step()
                bar.update()
        with torch.no_grad():
            scores = layer(features.test.h)
        return Scores(test=accuracies(scores, features.test.label), predictions={"": scores.argmax(1)})


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
