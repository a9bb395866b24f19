"""What a frozen encoder is worth: kNN and a linear probe on the test split."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from contrastive.features import extract, state_hash
from contrastive.metric.knn import knn
from contrastive.types import Data, Features


@dataclass(frozen=True)
class Evaluator:
    """Evaluates an encoder on `data`; `k` and `temperature` are the kNN's own.

    The kNN curve is drawn on the test split, as the papers draw theirs: nothing is ever selected by it.
    """

    data: Data
    normalise: Callable[[Tensor], Tensor]
    autocast: Callable[[], torch.autocast]
    probe: Callable[..., dict[str, float]]
    k: int
    temperature: float

    def nearest(self, encoder: nn.Module) -> dict[str, float]:
        """knn_top1 and knn_top5 on the test split."""
        return self._knn(*(extract(encoder, s, self.normalise, self.autocast) for s in (self.data.pretrain,
                                                                                        self.data.test)))

    def _knn(self, bank: Features, test: Features) -> dict[str, float]:
        return knn(bank, test, n_classes=len(self.data.classes), k=self.k, temperature=self.temperature)

    def everything(self, encoder: nn.Module) -> dict[str, float]:
        """All test metrics, in percent.

        Raises:
            RuntimeError: the encoder changed while it was evaluated.
        """
        before = state_hash(encoder)
        bank, val, test = (extract(encoder, s, self.normalise, self.autocast)
                           for s in (self.data.pretrain, self.data.probe_val, self.data.test))
        found = {**self._knn(bank, test),
                 **self.probe(bank[self.data.probe_train], val, test, len(self.data.classes))}
        if state_hash(encoder) != before:
            raise RuntimeError("the frozen encoder changed during its evaluation")
        return found

    def protocol(self) -> dict[str, Any]:
        """What the numbers mean, stored beside them."""
        k = max(1, min(self.k, int((self.data.pretrain.label >= 0).sum()) // 10))
        return {"knn": f"cosine, k={k}, weights exp(cos/{self.temperature:g}), bank = labeled training images",
                "linear": "logistic regression on frozen features (L-BFGS), strength chosen on probe_val, "
                          "then refitted on all labeled training images",
                "epoch": "last"}
