"""Linear probes as in the released code of two papers: by Adam, and trained along with the encoder."""

from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive.evaluator.base import (
    Evaluator,
    FeatureSets,
    Scores,
    accuracies,
    progress,
    shuffled,
    topk_accuracy,
)
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
        n = len(images.rows("bank")[1])
        steps = self.epochs * -(-n // self.batch_size)
        batches = images.encode("bank", islice(shuffled(n, self.batch_size), steps), images.augmentation)
        for batch in progress(steps, "adam_probe", batches):
            optimizer.zero_grad()
            F.cross_entropy(layer(batch.h), batch.label).backward()
            optimizer.step()
        with torch.no_grad():
            scores = layer(features.test.h)
        return Scores(test=accuracies(scores, features.test.label), predictions={"": scores.argmax(1)})


@dataclass(kw_only=True)
class OnlineProbe(Evaluator):
    """Test accuracy of a linear layer that learns from the training batches (Barbano et al. 2023, released code).

    At every step of pretraining, Adam minimizes the cross-entropy of the layer on the L2-normalized features of view 0;
    no gradient reaches the encoder. Every epoch is tested. The published metric is that of the best test epoch; it is
    `best_test_top1`, selected on the test split, and the metric of the last epoch, `top1`, stands beside it. It reports
    nothing before the first step, and nothing if no image is labeled. Its state is part of the checkpoint, so that a
    resumed run ends with the same metrics.

    Args:
        lr: of Adam, above 0.
        weight_decay: L2, at least 0.
    """

    reads_training = False

    lr: float = 1e-3
    weight_decay: float = 0.0
    every: int = field(default=1, init=False)  # the best epoch is searched among all: not a setting

    def __post_init__(self) -> None:
        self.linear: nn.Linear | None = None
        self.protocol = (
            f"linear layer on L2-normalized features, trained along with the encoder by its own Adam lr {self.lr:g} "
            f"weight decay {self.weight_decay:g}, no gradient to the encoder (Barbano et al. 2023); best_test figures: "
            "best test epoch, as published; top1, top5: last epoch"
        )

    def prepare(self, *, dim: int, n_classes: int, device: torch.device, seed: int) -> None:
        """Forget everything and get ready for features of `dim` dimensions."""
        self.linear = linear_layer(dim, n_classes, rng=generator("cpu", seed, "trained along"), device=device)
        self.optimizer = torch.optim.Adam(self.linear.parameters(), lr=self.lr, weight_decay=self.weight_decay)
        self.best_top1, self.best_predictions = -1.0, torch.empty(0)

    def observe(self, h: Tensor, label: Tensor) -> None:
        """Learn from the features of one training batch, that of all processes together.

        Args:
            h: (B, V, F), as the encoder in training mode computed them, without gradient.
            label: (B,), -1 = unlabeled.
        """
        assert self.linear is not None
        scores = self.linear(F.normalize(h[:, 0].float(), dim=1))
        loss = F.cross_entropy(scores, label, ignore_index=-1, reduction="sum") / (label >= 0).sum().clamp(min=1)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def __call__(self, features: FeatureSets) -> Scores:
        if self.linear is None or not self.optimizer.state:  # no step yet
            return Scores()
        scores = self.linear(F.normalize(features.test.h, dim=1))
        top1 = topk_accuracy(scores, features.test.label, 1)
        if top1 > self.best_top1:
            self.best_top1, self.best_predictions = top1, scores.argmax(1)
        return Scores(
            test={**accuracies(scores, features.test.label), "best_test_top1": self.best_top1},
            predictions={"": scores.argmax(1), "best_test": self.best_predictions},
        )

    def state(self) -> dict[str, Any]:
        """Plain containers and tensors that `load` restores."""
        assert self.linear is not None
        return {
            "linear": self.linear.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "best_top1": self.best_top1,
            "best_predictions": self.best_predictions,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned, after `prepare`."""
        assert self.linear is not None
        self.linear.load_state_dict(state["linear"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.best_top1 = state["best_top1"]
        self.best_predictions = state["best_predictions"].to(self.linear.weight.device)


def linear_layer(dim: int, n_classes: int, *, rng: torch.Generator, device: torch.device) -> nn.Linear:
    """A linear layer with torch's initialization (uniform in ± 1/√dim) drawn from a CPU generator."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, dim, n_classes, device=device)
    bound = dim**-0.5
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.empty(parameter.shape).uniform_(-bound, bound, generator=rng))
    return layer
