"""What a frozen encoder is worth: kNN, a linear probe and, on biased data, an audit; all on the test split."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from contrastive.evaluator._accuracy import top
from contrastive.evaluator.bias_audit import group_accuracy, own_bias, similarity_kinds
from contrastive.evaluator.knn import knn
from contrastive.evaluator.linear import LinearProbe
from contrastive.seeding import generator
from contrastive.training.features import extract, state_hash
from contrastive.types import Data, Features

AUDITED = 2000  # test images whose pairs are compared: two million cosines


@dataclass
class Evaluation:
    """`test`, `val` and `audit` as result.json holds them (percent), and cosines of test pairs for histograms.

    `val` is for searches: the same read-outs on probe_val, which a search should hold out (dataset.hold_out=true).
    """

    test: dict[str, float]
    val: dict[str, float]
    audit: dict[str, Any]
    cosines: dict[str, Tensor]


@dataclass(frozen=True)
class Evaluator:
    """Evaluates an encoder on `data`; `k` and `temperature` are the kNN's own.

    The kNN curve is drawn on the test split, as the papers draw theirs: nothing is ever selected by it.
    """

    data: Data
    normalize: Callable[[Tensor], Tensor]
    autocast: Callable[[], torch.autocast]
    probe: LinearProbe
    k: int
    temperature: float

    def nearest(self, encoder: nn.Module) -> dict[str, float]:
        """knn_top1 and knn_top5 on the test split."""
        return self._knn(
            *(extract(encoder, s, self.normalize, self.autocast) for s in (self.data.pretrain, self.data.test))
        )

    def _knn(self, bank: Features, test: Features) -> dict[str, float]:
        return knn(bank, test, n_classes=len(self.data.classes), k=self.k, temperature=self.temperature)

    def everything(self, encoder: nn.Module, classifier: nn.Linear | None = None) -> Evaluation:
        """All test metrics. `classifier` is the linear layer a supervised term trained along, if there is one.

        Raises:
            RuntimeError: the encoder changed while it was evaluated.
        """
        data, n = self.data, len(self.data.classes)
        before = state_hash(encoder)
        bank, val, test = (
            extract(encoder, s, self.normalize, self.autocast) for s in (data.pretrain, data.probe_val, data.test)
        )
        labeled = bank[(bank.label >= 0).nonzero().squeeze(1)]
        probed, scores = self.probe(bank[data.probe_train], val, labeled, test, n)
        seen = {"linear_top1": probed.pop("val_top1")}
        found, guesses = {**self._knn(bank, test), **probed}, {"linear": scores.argmax(1)}
        if classifier is not None:
            with torch.no_grad():
                logits = classifier(test.h)
                seen["classifier_top1"] = top(classifier(val.h), val.label, 1)
            found |= {"classifier_top1": top(logits, test.label, 1), "classifier_top5": top(logits, test.label, 5)}
            guesses["classifier"] = logits.argmax(1)
        audit, cosines = self._audit(val, test, guesses) if test.bias is not None else ({}, {})
        if state_hash(encoder) != before:
            raise RuntimeError("the frozen encoder changed during its evaluation")
        return Evaluation(found, seen, audit, cosines)

    def _audit(
        self, val: Features, test: Features, guesses: dict[str, Tensor]
    ) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Accuracies by group for each read-out (`reported`: the classifier trained along where there is one, as the
        papers do, else the linear probe), a linear read-out of the bias, and similarities by kind of pair.

        The bias is read by a regression fitted on probe_val, whose biases are nearly unrelated to the classes: on the
        training images it would learn to read the class instead.
        """
        assert test.bias is not None and val.bias is not None
        own = own_bias(self.data.pretrain, len(self.data.classes), len(self.data.biases)).to(test.h.device)
        audit: dict[str, Any] = {
            name: group_accuracy(guess, test.label, test.bias, own) for name, guess in guesses.items()
        }
        audit["reported"] = audit["classifier" if "classifier" in guesses else "linear"]
        audit["bias_top1"] = self.probe.read_out(val.h, val.bias, test.h, test.bias, len(self.data.biases))
        some = torch.randperm(len(test.h), generator=generator("cpu", "audited"))[:AUDITED].to(test.h.device)
        cosines = similarity_kinds(test.h[some], test.label[some], test.bias[some])
        audit["similarity"] = {kind: value.mean().item() for kind, value in cosines.items() if len(value)}
        return audit, cosines

    def protocol(self) -> dict[str, Any]:
        """What the numbers mean, stored beside them."""
        k = max(1, min(self.k, int((self.data.pretrain.label >= 0).sum()) // 10))
        return {
            "knn": f"cosine, k={k}, weights exp(cos/{self.temperature:g}), bank = labeled training images",
            "linear": "logistic regression on frozen features (L-BFGS), strength chosen on probe_val, "
            "then refitted on all labeled training images",
            "classifier": "the linear classifier trained along, plain logits",
            "bias": "regression fitted on the features of probe_val, read on test",
            "epoch": "last",
        }
