"""Audit on biased data: accuracy of the probes by bias group, and how well the bias can be predicted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import ConfigError, check_choice
from contrastive.evaluator.base import Evaluator, FeatureSets, Scores, topk_accuracy
from contrastive.evaluator.linear import Standardizer, fit_logistic, logits
from contrastive.seeding import generator
from contrastive.types import Features, count_pairs

EARLIER = {"cell_mean_top1": "group_mean_top1", "worst_cell_top1": "worst_group_top1"}  # names that results keep
METRICS = ("top1", "group_mean_top1", "conflicting_top1", "worst_group_top1", *EARLIER)
MAX_IMAGES = 2000  # test images whose pairs are compared: two million cosines


@dataclass(kw_only=True)
class BiasAudit(Evaluator):
    """Accuracy by bias group of every probe that ran before, predictability of the bias, cosines by kind of pair.

    The audit holds:
        NAME         `group_accuracy` of each probe before it in the list that predicts classes (few_shot does not)
        reported     that of the probe `reported`, with its name (`read_out`), `metric` and that value (`accuracy`)
        groups       every (class, bias) group of test images: how many images, and the accuracy of each probe
        bias_top1    accuracy in percent of a logistic regression from features to bias
        similarity   mean cosine of each kind of pair
    The bias is read by a regression fitted on `val`, whose biases are nearly unrelated to the classes where the
    dataset draws them anew for validation (biased_mnist, biased_digits). Elsewhere, as in an image folder, `val` is as
    biased as the training images, the regression also reads the class, and `bias_top1` says less. Nothing on data
    without bias.

    Args:
        reported: the probe that the published metric comes from: `linear`, `classifier`, `online_probe_best_test` and
            so on; `auto` = the classifier that the loss trains along, else the linear probe.
        metric: the published metric: `top1`, `group_mean_top1` (Hong & Yang 2021), `conflicting_top1` or
            `worst_group_top1`.
        l2: strength of the bias regression, at least 0.
        max_iter: its Newton iterations, at least 1.
    """

    reported: str = "auto"
    metric: str = "top1"
    l2: float = 1e-2
    max_iter: int = 100

    def __post_init__(self) -> None:
        check_choice("evaluator.bias_audit.metric", self.metric, METRICS)
        probe = "classifier trained along by the loss, else linear" if self.reported == "auto" else self.reported
        selection = "best test epoch, as published" if "best_test" in self.reported else "last epoch"
        self.protocol = (
            f"predictions of the read-outs by (class, bias) group, reported: {self.metric} of {probe} ({selection}); "
            "bias read by a logistic regression fitted on the features of probe_val; both on test"
        )

    def check_names(self, before: list[str]) -> None:
        if self.reported != "auto" and not any(f"{self.reported}_".startswith(f"{name}_") for name in before):
            known = ", ".join(["auto", *before])
            raise ConfigError(
                f"evaluator.bias_audit.reported={self.reported} needs that evaluator before bias_audit, there are "
                f"{known}: try evaluator=[linear,{self.reported.removesuffix('_best_test')},bias_audit]"
            )

    def __call__(self, features: FeatureSets) -> Scores:
        test = features.test
        if test.bias is None:
            return Scores()
        majority = majority_bias(features.bank, features.n_classes, features.n_biases)
        audit: dict[str, Any] = {
            name: group_accuracy(guess, test.label, test.bias, majority) for name, guess in features.predictions.items()
        }
        for name in ("classifier", "linear") if self.reported == "auto" else (self.reported,):
            if self.metric in audit.get(name, {}):  # none conflicts where every image shows the bias of its class
                audit["reported"] = {
                    "read_out": name, "metric": self.metric, "accuracy": audit[name][self.metric], **audit[name],
                }  # fmt: skip
                break
        if features.predictions:
            audit["groups"] = listed_groups(features.predictions, test, features.classes, features.biases)
        standardize = Standardizer(features.val.h)
        x, bias = standardize(features.val.h), features.val.bias
        assert bias is not None
        weight = fit_logistic(x, bias, n_classes=features.n_biases, l2=self.l2, max_iter=self.max_iter)
        audit["bias_top1"] = topk_accuracy(logits(weight, standardize(test.h)), test.bias, 1)
        chosen = torch.randperm(len(test.h), generator=generator("cpu", "audited"))[:MAX_IMAGES].to(test.h.device)
        cosines = pairwise_cosines(test.h[chosen], test.label[chosen], test.bias[chosen])
        audit["similarity"] = {kind: value.mean().item() for kind, value in cosines.items() if len(value)}
        return Scores(audit=audit, histograms={f"similarity/{kind}": value for kind, value in cosines.items()})


def majority_bias(train: Features, n_classes: int, n_biases: int) -> Tensor:
    """(C,): the most frequent bias of each class in training; images that show it are bias-aligned."""
    assert train.bias is not None
    return count_pairs(train.label, train.bias, n_classes, n_biases).argmax(1)


def mean_by_group(right: Tensor, label: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(class, bias) (G, 2), number of images (G,) and mean of `right` (N,) float64 of each group that has images."""
    pairs, group, n = torch.stack([label, bias], 1).unique(dim=0, return_inverse=True, return_counts=True)
    return pairs, n, torch.zeros(len(n), dtype=right.dtype, device=right.device).index_add(0, group, right) / n


def listed_groups(
    guesses: Mapping[str, Tensor], test: Features, classes: tuple[str, ...], biases: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Each (class, bias) group that has test images: {class, bias, n, top1: {read-out: percent right}}.

    Args:
        guesses: {read-out: (N,) classes}.
        classes: their names; one without a name is called by its number.
        biases: their names; one without a name is called by its number.
    """
    assert test.bias is not None

    def name(i: int, known: tuple[str, ...]) -> str:
        return known[i] if i < len(known) else str(i)

    right = torch.stack([test.label, *guesses.values()]) == test.label
    pairs, n, _ = mean_by_group(right[0].double(), test.label, test.bias)
    accuracies = [100 * mean_by_group(own.double(), test.label, test.bias)[2] for own in right[1:]]
    groups = zip(pairs.tolist(), n.tolist(), torch.stack(accuracies, 1).tolist(), strict=True)
    return [
        {"class": name(c, classes), "bias": name(b, biases), "n": count, "top1": dict(zip(guesses, top1, strict=True))}
        for (c, b), count, top1 in groups
    ]


def group_accuracy(guess: Tensor, label: Tensor, bias: Tensor, majority: Tensor) -> dict[str, float]:
    """Percent right of all images, of bias-aligned and bias-conflicting ones, and over (class, bias) groups.

    `group_mean_top1` counts every group alike (the unbiased accuracy of Hong & Yang 2021), `worst_group_top1` is the
    lowest group (Sagawa et al. 2020). A group without images is left out. `cell_mean_top1` and `worst_cell_top1` are
    their earlier names.

    Args:
        guess: (N,) of the test split.
        label: (N,) of the test split.
        bias: (N,) of the test split.
        majority: (C,) from `majority_bias`.
    """
    right = (guess == label).double()
    aligned = bias == majority[label]
    by_group = mean_by_group(right, label, bias)[2]
    values = {"top1": right.mean(), "group_mean_top1": by_group.mean(), "worst_group_top1": by_group.min()}
    for name, part in (("aligned_top1", right[aligned]), ("conflicting_top1", right[~aligned])):
        if len(part):
            values[name] = part.mean()
    values |= {old: values[today] for old, today in EARLIER.items()}
    return {key: 100 * value.item() for key, value in values.items()}


def pairwise_cosines(h: Tensor, label: Tensor, bias: Tensor) -> dict[str, Tensor]:
    """Cosines of all pairs i < j of features (N, F), by {positive, negative} × {aligned, conflicting}.

    Positive: same class; aligned: same bias.
    """
    h = F.normalize(h.float(), dim=1)
    i, j = torch.triu_indices(len(h), len(h), 1, device=h.device)
    cosine, same_class, same_bias = (h @ h.T)[i, j], label[i] == label[j], bias[i] == bias[j]
    return {
        "positive_aligned": cosine[same_class & same_bias],
        "positive_conflicting": cosine[same_class & ~same_bias],
        "negative_aligned": cosine[~same_class & same_bias],
        "negative_conflicting": cosine[~same_class & ~same_bias],
    }
