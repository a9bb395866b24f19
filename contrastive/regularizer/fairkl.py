"""FairKL regularizer: match the similarity distributions of bias-aligned and bias-conflicting pairs."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import ConfigError, check_choice
from contrastive.loss.base import SampleLoss

SEMANTICS = ("paper", "released")
VARIANCE_FLOOR = 1e-6


class Masks(NamedTuple):
    """(S, S) bool each: pairs of the same class (positive) or not, of the same bias (aligned) or not; self excluded.

    The masks are symmetric: every unordered pair appears twice.
    """

    positive_aligned: Tensor
    positive_conflicting: Tensor
    negative_aligned: Tensor
    negative_conflicting: Tensor


def masks(label: Tensor, bias: Tensor) -> Masks:
    """The four kinds of pairs among samples with these labels and biases (S,)."""
    diagonal = torch.eye(len(label), dtype=torch.bool, device=label.device)
    same, aligned = (label[:, None] == label) & (label >= 0), bias[:, None] == bias
    return Masks(same & aligned & ~diagonal, same & ~aligned, ~same & aligned, ~same & ~aligned)


def gaussian_kl(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """KL between the Gaussians of x[first] and x[second], population variances floored at 1e-6.

    1/2 [ e^{lv_1 - lv_2} + (μ_1 - μ_2)² e^{-lv_2} - (lv_1 - lv_2) - 1 ]; 0 without gradient unless both symmetric masks
    hold more than one unordered pair (a single pair has no variance).
    """
    moments = []
    for mask in (first, second):
        n = mask.sum().clamp(min=1)
        mean = (x * mask).sum() / n
        variance = ((x - mean).square() * mask).sum() / n
        moments.append((mean, variance.clamp(min=VARIANCE_FLOOR).log()))
    (mean_1, log_1), (mean_2, log_2) = moments
    value = 0.5 * ((log_1 - log_2).exp() + (mean_1 - mean_2).square() * (-log_2).exp() - (log_1 - log_2) - 1)
    return torch.where(_has_two_pairs(first) & _has_two_pairs(second), value, 0)


def _has_two_pairs(mask: Tensor) -> Tensor:
    return mask.sum() > 2  # one unordered pair is two entries


class FairKL(SampleLoss):
    """weight · R with R = KL( aligned positives ‖ conflicting positives ) (Barbano et al. 2023, eq. 17).

    Similarities are cosines of the features, pooled over the batch; every view is a sample. A batch with fewer than
    two pairs of either kind costs 0.

    Args:
        weight: λ >= 0.
        semantics: `paper`, as above; `released` is what the authors' code does, which is no KL:
            (μ_pc - μ_pa)² + (μ_na - μ_nc)² + kld [ (σ_pa - σ_pc)² + (σ_na - σ_nc)² ] - μ_pc + μ_na
            with the self-pairs among the aligned, and each σ over all S² entries of similarity times mask.
        kld: weight of the deviations in `released`; unused in `paper`.

    Shapes: features (B, V, F), label (B,), bias (B,) → scalar.

    Raises:
        ConfigError: an argument out of range.
    """

    input = "features"
    needs_label = True
    needs_bias = True

    def __init__(self, *, weight: float = 1.0, semantics: str = "paper", kld: float = 1.0) -> None:
        super().__init__()
        if not weight >= 0:
            raise ConfigError(f"weight must be at least 0, got {weight}: try regularizer.weight=1.0")
        check_choice("regularizer.semantics", semantics, SEMANTICS)
        self.weight, self.semantics, self.kld = weight, semantics, kld

    def diagnostics(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        """{pairs/fairkl_empty: 1 if the batch has too few pairs of either kind and costs 0}."""
        if label is None or bias is None:
            return {}
        kinds = masks(label.repeat_interleave(z.shape[1]), bias.repeat_interleave(z.shape[1]))
        is_empty = ~(_has_two_pairs(kinds.positive_aligned) & _has_two_pairs(kinds.positive_conflicting))
        return {"pairs/fairkl_empty": is_empty.float()}

    def per_batch(self, x: Tensor, label: Tensor, bias: Tensor) -> Tensor:
        x = F.normalize(x, dim=-1)
        similarity, kinds = x @ x.T, masks(label, bias)
        if self.semantics == "paper":
            return self.weight * gaussian_kl(similarity, kinds.positive_aligned, kinds.positive_conflicting)
        return self.weight * self._released(similarity, kinds)

    def _released(self, similarity: Tensor, kinds: Masks) -> Tensor:
        with_self = kinds.positive_aligned | torch.eye(len(similarity), dtype=torch.bool, device=similarity.device)
        mean, deviation = [], []
        for mask in kinds._replace(positive_aligned=with_self):
            masked = similarity * mask
            mean.append(masked.sum() / mask.sum().clamp(min=1))
            deviation.append((masked.var() + 1e-24).sqrt())  # a finite gradient for an empty set
        (pa, pc, na, nc), (sd_pa, sd_pc, sd_na, sd_nc) = mean, deviation
        spread = (sd_pa - sd_pc).square() + (sd_na - sd_nc).square()
        return (pc - pa).square() + (na - nc).square() + self.kld * spread - pc + na
