"""Evaluators: measures of a frozen encoder, computed from features that are extracted once for all of them."""

import itertools
import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from tqdm import tqdm

from contrastive.augmentation.base import Augmentation
from contrastive.encoder._trained import merged
from contrastive.errors import ConfigError
from contrastive.seeding import generator
from contrastive.text import pack_bits
from contrastive.types import Data, Features, Split

DELAY = 3.0  # seconds before the bar of an evaluator shows


@dataclass(frozen=True, kw_only=True)
class Images(ABC):
    """The images behind the features, and their encoder: for evaluators that encode anew, or train every weight.

    Attributes:
        normalize: uint8 images, or float views in [0, 1] → the encoder's input.
        augmentation: that of the run.
    """

    encoder: nn.Module
    data: Data
    normalize: Callable[[Tensor], Tensor]
    augmentation: Augmentation

    @property
    def device(self) -> torch.device:
        """Of the encoder."""
        return next(self.encoder.parameters()).device

    def rows(self, split: str) -> tuple[Split, Tensor]:
        """The images that `bank`, `train`, `val` or `test` are among, and which of them it is."""
        if split == "bank":
            return self.data.pretrain, (self.data.pretrain.label.cpu() >= 0).nonzero().squeeze(1)
        if split == "train":
            return self.data.pretrain, self.data.probe_train
        if split == "val" and self.data.probe_val_index is not None:
            return self.data.pretrain, self.data.probe_val_index
        images = self.data.probe_val if split == "val" else self.data.test
        return images, torch.arange(len(images), device=images.image.device)

    def copy(self) -> nn.Module:
        """A new copy of the encoder in eval mode, its weights free to change, those that training left alone, too."""
        return merged(self.encoder).eval()

    def plain(self, split: str, rows: Tensor) -> Tensor:
        """(n, 3, H, W), normalized for the encoder: the images of rows (n,) of `train`, `val` or `test`."""
        return self.normalize(self._read(split, rows))

    def views(self, rows: Tensor, augmentation: Augmentation, rng: torch.Generator) -> Tensor:
        """(n, 3, h, w), normalized for the encoder: one augmented view of each of the rows (n,) of `train`.

        Args:
            rng: on the device of the encoder.
        """
        image = self._read("train", rows)
        parameters = augmentation.draw(len(image), image.shape[-2], image.shape[-1], rng)
        return self.normalize(augmentation.apply(image, parameters))

    def _read(self, split: str, rows: Tensor) -> Tensor:
        """uint8 images of a split, on the encoder's device."""
        images, index = self.rows(split)
        return images.image[index.cpu()[rows.cpu()].to(images.image.device)].to(self.device)

    @abstractmethod
    def encode(
        self, split: str, batches: Iterable[Tensor], augmentation: Augmentation | None = None
    ) -> Iterator[Features]:
        """Features of one batch at a time, which are not kept.

        Args:
            split: `bank`, `train` or `val`.
            batches: rows (b,) of the split.
            augmentation: of one view of each image, drawn anew in every batch; None = the images as they are.
        """

    @abstractmethod
    def transfer(self, dataset: str) -> "FeatureSets":
        """Features of the images of another dataset."""


@dataclass(frozen=True, kw_only=True)
class FeatureSets:
    """Float32 features of one frozen encoder.

    `bank` holds every labeled training image; `train` is nine tenths of them and `val` the last tenth, for fitting and
    for selecting (colored datasets show `val` with nearly unbiased colors; with hold_out the encoder never saw it).
    `test` is read once and selects nothing.
    """

    bank: Features
    train: Features
    val: Features
    test: Features
    n_classes: int
    n_biases: int = 0  # 0: the data has no bias labels
    classes: tuple[str, ...] = ()  # names; empty = their numbers
    biases: tuple[str, ...] = ()
    classifier: Callable[[Tensor], Tensor] | None = None  # (N, F) → (N, C) logits, when a loss trains one along
    predictions: Mapping[str, Tensor] = field(default_factory=dict)  # (N,) classes of test, by the evaluators before
    images: Images | None = None  # None: there are only features

    def images_for(self, evaluator: str) -> Images:
        """The images; raises ConfigError if there are only features."""
        if self.images is None:
            raise ConfigError(f"evaluator.{evaluator} reads images, but got only features: try evaluator=linear")
        return self.images


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Metrics of one or of several evaluators, as result.json holds them.

    test, val: {name: value} on the test split and, for searches, on the validation split; accuracies in percent.
    predictions: {name: (N,) int64}, the class of each test image, for evaluators that group images; named like the
    metrics. correct: {name of an accuracy: the test images that were classified right, see `bits.pack`}. audit: a
    nested record. histograms: {name: values} for TensorBoard.
    """

    test: dict[str, float] = field(default_factory=dict)
    val: dict[str, float] = field(default_factory=dict)
    predictions: dict[str, Tensor] = field(default_factory=dict)
    correct: dict[str, str] = field(default_factory=dict)
    audit: dict[str, Any] = field(default_factory=dict)
    histograms: dict[str, Tensor] = field(default_factory=dict)
    protocol: dict[str, str] = field(default_factory=dict)


@dataclass(kw_only=True)
class Evaluator(ABC):
    """`evaluator(features)` → Scores; one that has only test metrics may return them as {name: value}.

    Names are prefixed with the evaluator's own name: `knn` returns {"top1": 52.4}, which is knn_top1 in result.json.
    The empty name stands for the evaluator itself. An evaluator that does not apply to the data returns nothing. A
    metric that is selected on the test split says so in its name: `best_test_top1`.
    """

    protocol: str = field(init=False, repr=False, compare=False)  # one sentence: data, read-out, selection
    every: int = 0  # epochs between points of a curve; 0 = only before and after training
    before_training: ClassVar[bool] = True  # also evaluate the untrained encoder
    needs_labels: ClassVar[bool] = True  # left out when no image has a label
    reads_training: ClassVar[bool] = True  # reads bank, train or val, which are empty where no evaluator does
    reads_images: ClassVar[bool] = False  # reads images, not only features: a dry run cannot time it

    @abstractmethod
    def __call__(self, features: FeatureSets) -> Scores:
        """Evaluate one set of features."""

    def check_names(self, before: list[str]) -> None:  # noqa: B027  most evaluators need no other
        """Raise ConfigError if the evaluator needs another one that is not `before` it in the list."""


def evaluate(
    evaluators: Mapping[str, Evaluator],
    features: FeatureSets,
    *,
    announce: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> Scores:
    """Run every evaluator on the same features and prefix its metrics with its name.

    A metric that is not finite is named in a warning and left out.

    Args:
        evaluators: {name: evaluator}; later ones see the predictions of earlier ones.
        announce: name of an evaluator → what it runs in, such as one that says that it takes long.

    Raises:
        ConfigError: an evaluator returns neither a dict nor Scores.
    """
    total = Scores()
    for name, evaluator in evaluators.items():
        with announce(name):
            answer: object = evaluator(features)
        scores = _finite(name, _scores(name, answer))
        total.test.update({_join(name, key): value for key, value in scores.test.items()})
        total.val.update({_join(name, key): value for key, value in scores.val.items()})
        total.audit.update(scores.audit)
        total.histograms.update(scores.histograms)
        if scores.test or scores.audit:
            total.protocol[name] = evaluator.protocol
        if scores.predictions:
            guesses = {_join(name, key): guess for key, guess in scores.predictions.items()}
            features = replace(features, predictions={**features.predictions, **guesses})
            for key, guess in guesses.items():
                if f"{key}_top1" in total.test:
                    total.correct[f"{key}_top1"] = pack_bits((guess == features.test.label).cpu())
    return total


def _scores(name: str, answer: object) -> Scores:
    """What an evaluator returned; ConfigError unless it is a dict or Scores."""
    scores = Scores(test=dict(answer)) if isinstance(answer, Mapping) else answer
    if not isinstance(scores, Scores):
        instead = "a dict of numbers such as {'top1': 52.4}, or Scores"
        raise ConfigError(f"evaluator {name} returns a {type(answer).__name__}: try {instead}")
    return scores


def _finite(name: str, scores: Scores) -> Scores:
    """The scores without figures that are not finite; of the audit all or nothing."""
    faults = [f"{key or name} = {x}" for key, x in (*scores.test.items(), *scores.val.items()) if not math.isfinite(x)]
    audit = scores.audit
    try:
        json.dumps(audit, allow_nan=False)
    except ValueError:
        audit = {}
        faults.append("an audit with NaN or infinity")
    for fault in faults:
        tqdm.write(f"warning: evaluator {name} gives {fault} on this data: it is left out")
    test, val = ({key: float(x) for key, x in group.items() if math.isfinite(x)} for group in (scores.test, scores.val))
    return replace(scores, test=test, val=val, audit=audit)


def _join(name: str, key: str) -> str:
    return f"{name}_{key}" if key else name


def topk_accuracy(scores: Tensor, label: Tensor, k: int) -> float:
    """Percent of the rows of scores (N, C) whose label (N,) is among the k highest."""
    best = scores.topk(min(k, scores.shape[1]), dim=1).indices
    return 100 * (best == label[:, None]).any(1).double().mean().item()


def accuracies(scores: Tensor, label: Tensor) -> dict[str, float]:
    """top1, and of more than five classes top5, in percent of scores (N, C) for labels (N,)."""
    return {f"top{k}": topk_accuracy(scores, label, k) for k in (1, 5) if k == 1 or scores.shape[1] > k}


def read_out(scores: Tensor, label: Tensor, val_top1: float) -> Scores:
    """What an evaluator gives that has scores (N, C) of the test images with these labels (N,)."""
    return Scores(test=accuracies(scores, label), val={"top1": val_top1}, predictions={"": scores.argmax(1)})


def progress(total: int, name: str, batches: Iterable[Any] | None = None) -> tqdm:
    """A bar over `total` batches of the evaluator `name`; only on a terminal, and by the first of several processes.

    It moves by `update`, or with the batches where it is given them.
    """
    quiet = True if os.environ.get("RANK", "0") != "0" else None  # None: quiet unless on a terminal
    return tqdm(batches, total=total, desc=name, unit="batch", delay=DELAY, mininterval=1, leave=False, disable=quiet)


def shuffled(n: int, batch_size: int) -> Iterator[Tensor]:
    """Rows (b,) of each batch of n images, in another order each epoch, without end."""
    for epoch in itertools.count():
        yield from torch.randperm(n, generator=generator("cpu", "probe order", epoch)).split(batch_size)
