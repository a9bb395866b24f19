"""The classifier that a supervised loss trains along with the encoder."""

from dataclasses import dataclass, field

import torch

from contrastive.evaluator.base import Evaluator, FeatureSets, Scores, read_out, topk_accuracy


@dataclass(kw_only=True)
class Classifier(Evaluator):
    """Accuracy of the linear classifier trained along; nothing where the loss trains none.

    Its validation metric is training accuracy unless the validation images are held out (`dataset.hold_out=true`) or
    shown recolored, as colored datasets do.
    """

    protocol = "the linear classifier trained along with the encoder, plain logits; last epoch"
    every: int = field(default=0, init=False)

    @torch.no_grad()
    def __call__(self, features: FeatureSets) -> Scores:
        if features.classifier is None:
            return Scores()
        scores = features.classifier(features.test.h)
        val_top1 = topk_accuracy(features.classifier(features.val.h), features.val.label, 1)
        return read_out(scores, features.test.label, val_top1)
