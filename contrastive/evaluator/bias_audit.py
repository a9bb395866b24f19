"""Audit of biased data: where an encoder is right, and whether it still knows the bias."""

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.types import Split


def own_bias(train: Split, n_classes: int, n_biases: int) -> Tensor:
    """(C,): the most frequent bias of each class in training; images that show it are bias-aligned."""
    assert train.bias is not None
    count = torch.zeros(n_classes, n_biases, device=train.label.device)
    labeled = train.label >= 0
    ones = torch.ones((), device=count.device)
    return count.index_put_((train.label[labeled], train.bias[labeled]), ones, accumulate=True).argmax(1)


def group_accuracy(guess: Tensor, label: Tensor, bias: Tensor, own: Tensor) -> dict[str, float]:
    """Percent right of all, of bias-aligned and of bias-conflicting images, over (class, bias) cells: their mean
    (every cell counts alike: the unbiased accuracy of Hong & Yang 2021) and the worst.

    A group without images is left out.

    Args:
        guess, label, bias: (N,) of the test split. own: (C,) from `own_bias`.
    """
    right = (guess == label).double()
    aligned = bias == own[label]
    cells = (label * (int(bias.max()) + 1) + bias).unique(return_inverse=True)[1]
    total = torch.zeros(int(cells.max()) + 1, dtype=torch.float64, device=right.device)
    mean = total.index_add(0, cells, right) / total.index_add(0, cells, torch.ones_like(right))
    found = {"top1": right.mean(), "cell_mean_top1": mean.mean(), "worst_cell_top1": mean.min()}
    for name, group in (("aligned_top1", right[aligned]), ("conflicting_top1", right[~aligned])):
        if len(group):
            found[name] = group.mean()
    return {key: 100 * value.item() for key, value in found.items()}


def similarity_kinds(h: Tensor, label: Tensor, bias: Tensor) -> dict[str, Tensor]:
    """Cosines of all pairs i < j of features (N, F), by {positive, negative} × {aligned, conflicting}.

    Positive: same class; aligned: same bias.
    """
    h = F.normalize(h.float(), dim=1)
    i, j = torch.triu_indices(len(h), len(h), 1, device=h.device)
    cosine, same, alike = (h @ h.T)[i, j], label[i] == label[j], bias[i] == bias[j]
    return {
        "positive_aligned": cosine[same & alike],
        "positive_conflicting": cosine[same & ~alike],
        "negative_aligned": cosine[~same & alike],
        "negative_conflicting": cosine[~same & ~alike],
    }


def conflicting_pairs(label: Tensor, bias: Tensor) -> Tensor:
    """How many pairs i < j of a batch share the class but not the bias: what the debiasing terms live on."""
    same = (label[:, None] == label) & (bias[:, None] != bias)
    return same.sum() / 2
