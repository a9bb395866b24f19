"""Evaluators: measures of a frozen encoder, computed from features that are extracted once for all of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from contrastive.types import Features


@dataclass(frozen=True, kw_only=True)
class FeatureSets:
    """Float32 features of one frozen encoder.

    `bank` holds every labeled training image; `train` is nine tenths of them and `val` the last tenth, for fitting and
    for selecting (biased data shows `val` with nearly unbiased colors; with hold_out the encoder never saw it). `test`
    is read once and selects nothing.
    """

    bank: Features
    train: Features
    val: Features
    test: Features
    n_classes: int
    n_biases: int = 0  # 0: the data has no bias labels
    classifier: Callable[[Tensor], Tensor] | None = None  # (N, F) → (N, C) logits, when a loss trains one along
    predictions: Mapping[str, Tensor] = field(default_factory=dict)  # (N,) classes of test, by the evaluators before


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Figures of one or of several evaluators, as result.json holds them.

    test, val: {name: value} on the test split and, for searches, on the validation split; accuracies in percent.
    predictions: (N,) int64, the class of each test image, for evaluators that group images. audit: a nested record.
    histograms: {name: values} for TensorBoard.
    """

    test: dict[str, float] = field(default_factory=dict)
    val: dict[str, float] = field(default_factory=dict)
    predictions: Tensor | None = None
    audit: dict[str, Any] = field(default_factory=dict)
    histograms: dict[str, Tensor] = field(default_factory=dict)
    protocol: dict[str, str] = field(default_factory=dict)


class Evaluator(ABC):
    """`evaluator(features)` → {name: value}, or Scores when there is more to say than test figures.

    The names get the evaluator's own name in front: `knn` returns {"top1": 52.4} and result.json says knn_top1; the
    empty name stands for the evaluator itself. An evaluator that does not apply to the data returns nothing.
    """

    protocol: str  # one sentence, stored beside the figures: data, read-out, selection
    every: int = 0  # epochs between points of a curve; 0 = only before and after training

    @abstractmethod
    def __call__(self, features: FeatureSets) -> dict[str, float] | Scores:
        """Evaluate one set of features."""


def evaluate(evaluators: Mapping[str, Evaluator], features: FeatureSets) -> Scores:
    """Run every evaluator on the same features and put its name in front of its figures.

    Args:
        evaluators: {name: evaluator}; later ones see the predictions of earlier ones.
    """
    total = Scores()
    for name, evaluator in evaluators.items():
        answer = evaluator(features)
        scores = answer if isinstance(answer, Scores) else Scores(test=answer)
        total.test.update({_join(name, key): value for key, value in scores.test.items()})
        total.val.update({_join(name, key): value for key, value in scores.val.items()})
        total.audit.update(scores.audit)
        total.histograms.update(scores.histograms)
        if scores.test or scores.audit:
            total.protocol[name] = evaluator.protocol
        if scores.predictions is not None:
            features = replace(features, predictions={**features.predictions, name: scores.predictions})
    return total


def _join(name: str, key: str) -> str:
    return f"{name}_{key}" if key else name
