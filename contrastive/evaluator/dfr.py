"""Deep feature reweighting: a linear probe on held-out features with every group equally often."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from contrastive.evaluator.base import Evaluator, FeatureSets, Scores, accuracies
from contrastive.evaluator.linear import Standardizer, fit_logistic, logits
from contrastive.seeding import generator


@dataclass(kw_only=True)
class DFR(Evaluator):
    """Accuracy of a linear layer fitted where bias and class are unrelated (Kirichenko et al. 2023, DFR).

    It is a logistic regression on validation features, with as many of every (class, bias) group as the smallest group
    has. They are drawn `draws` times, and the weights are averaged. The strength is chosen by the worst group: fits on
    one half of the groups' images are judged on the other half. Groups with fewer than two images in `val` are left
    out. With dataset.hold_out=true the encoder has not seen these images. Nothing is reported without bias labels.

    List it before `bias_audit`, which then reports its groups: audit.dfr.worst_group_top1 is the published metric.

    Args:
        l2: strengths of at least 0, tried from strong to weak.
        draws: at least 1 (10 in the authors' code).
        max_iter: Newton iterations per fit, at least 1.

    The authors penalize by |W|₁; the features are those of the last epoch here.
    """

    protocol = (
        "logistic regression (Newton's method) on the features of probe_val with equally many images of every (class, "
        "bias) group, mean of the weights of several draws, strength chosen by the worst group of the other half "
        "(after Kirichenko et al. 2023, L2 in place of L1); last epoch"
    )

    l2: tuple[float, ...] = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
    draws: int = 10
    max_iter: int = 100

    def __call__(self, features: FeatureSets) -> Scores:
        val, test = features.val, features.test
        if val.bias is None:
            return Scores()
        x = Standardizer(val.h)
        h, group = x(val.h), val.label * features.n_biases + val.bias
        members = [(group == g).nonzero().squeeze(1) for g in group.unique()]
        halves = [_halves(rows) for rows in members if len(rows) > 1]
        if len(halves) < 2:
            return Scores()
        groups = [torch.cat(half) for half in halves]

        def fit(members: Sequence[Tensor], l2: float, draw: int) -> Tensor:
            rows, n = balanced(members, draw), features.n_classes
            return fit_logistic(h[rows], val.label[rows], n_classes=n, l2=l2, max_iter=self.max_iter)

        def worst(l2: float) -> float:
            guess = logits(fit([first for first, _ in halves], l2, 0), h).argmax(1)
            return min((guess[second] == val.label[second]).double().mean().item() for _, second in halves)

        l2 = max(sorted(self.l2, reverse=True), key=worst)
        weight = torch.stack([fit(groups, l2, draw) for draw in range(self.draws)]).mean(0)
        scores = logits(weight, x(test.h))
        return Scores(
            test=accuracies(scores, test.label), val={"worst_group_top1": 100 * worst(l2)},
            predictions={"": scores.argmax(1)},
        )  # fmt: skip


def _halves(members: Tensor) -> tuple[Tensor, Tensor]:
    """A fixed draw of half of the members, rounded up, and the rest."""
    order = torch.randperm(len(members), generator=generator("cpu", "dfr", "half", len(members)))
    first, second = members[order.to(members.device)].tensor_split([(len(members) + 1) // 2])
    return first, second


def balanced(groups: Sequence[Tensor], draw: int) -> Tensor:
    """As many members of each group as the smallest has, drawn anew for each `draw`."""
    n = min(len(members) for members in groups)
    chosen = []
    for i, members in enumerate(groups):
        order = torch.randperm(len(members), generator=generator("cpu", "dfr", draw, i))[:n]
        chosen.append(members[order.to(members.device)])
    return torch.cat(chosen)
