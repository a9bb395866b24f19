"""Accuracy of every class, for data with unequal classes."""

from dataclasses import dataclass, field
from typing import Any

import torch

from contrastive.errors import ConfigError
from contrastive.evaluator.base import Evaluator, FeatureSets, Scores


@dataclass(kw_only=True)
class ClassAudit(Evaluator):
    """Accuracy of each class, their mean and the worst, in percent, for every probe before it in the list.

    The audit holds {by_class: {NAME: {mean_top1, worst_top1, top1: {number of the class: accuracy}}}} and
    {classes: [{class, label, n}]}, the name and number of each class and how many test images it has. On a long tail
    (`dataset.imbalance`) the classes stand from the most common to the rarest. A class without test images is left out.
    """

    protocol = "predictions of the probes before it, test accuracy of each class; last epoch"
    every: int = field(default=0, init=False)

    def check_names(self, before: list[str]) -> None:
        if not before:
            raise ConfigError("class_audit needs a probe before it: try evaluator=[linear,class_audit]")

    def __call__(self, features: FeatureSets) -> Scores:
        label, names = features.test.label, features.classes
        present, n = (column.tolist() for column in torch.unique(label[label >= 0], return_counts=True))
        by_class: dict[str, Any] = {}
        for name, guess in features.predictions.items():
            top1 = {str(c): 100 * (guess[label == c] == c).double().mean().item() for c in present}
            mean, worst = sum(top1.values()) / len(top1), min(top1.values())
            by_class[name] = {"mean_top1": mean, "worst_top1": worst, "top1": top1}
        classes = [
            {"class": names[c] if c < len(names) else str(c), "label": c, "n": count}
            for c, count in zip(present, n, strict=True)
        ]
        return Scores(audit={"by_class": by_class, "classes": classes} if by_class else {})
