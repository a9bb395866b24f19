"""The read-out of FairKL's authors: a linear layer on normalized features, trained along with the encoder."""

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive.errors import ConfigError
from contrastive.evaluator._accuracy import BestEpoch, topk_accuracy
from contrastive.evaluator._minibatch import linear_layer
from contrastive.evaluator.base import Evaluator, FeatureSets, Scores, StepObserver
from contrastive.seeding import generator


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
    no gradient reaches the encoder. Every epoch is tested. The published figure is that of the best test epoch; it is
    `best_test_top1`, selected on the test split, and the figure of the last epoch, `top1`, stands beside it. Nothing
    before the first step, and nothing when no image is labeled.

    Args:
        lr: of Adam, above 0. weight_decay: L2, at least 0.

    Raises:
        ConfigError: an argument out of range.
    """

    every = 1  # the best epoch is searched among all: not a setting

    def __init__(self, *, lr: float = 1e-3, weight_decay: float = 0.0) -> None:
        if not 0 < lr < float("inf"):
            raise ConfigError(
                f"evaluator.online_probe.lr must be above 0, got {lr}: try evaluator.online_probe.lr=1e-3"
            )
        if not 0 <= weight_decay < float("inf"):
            raise ConfigError(
                f"evaluator.online_probe.weight_decay must be at least 0 and finite, got {weight_decay}: "
                "try evaluator.online_probe.weight_decay=0"
            )
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
        assert best.predictions is not None
        return Scores(
            test={
                **{f"top{k}": topk_accuracy(scores, test.label, k) for k in (1, 5)},
                "best_test_top1": best.top1,
            },
            predictions={"": scores.argmax(1), "best_test": best.predictions},
        )

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
