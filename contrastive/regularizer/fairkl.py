"""FairKL: aligned and conflicting pairs shall be equally similar."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.loss.base import Loss

SEMANTICS = ("paper", "released")
VARIANCE_FLOOR = 1e-6


class Masks(NamedTuple):
    """(S, S) bool each: pairs of the same class (positive) or not, of the same bias (aligned) or not; self excluded."""

    positive_aligned: Tensor
    positive_conflicting: Tensor
    negative_aligned: Tensor
    negative_conflicting: Tensor


def masks(label: Tensor, bias: Tensor) -> Masks:
    """The four kinds of pairs among samples with these labels and biases (S,)."""
    itself = torch.eye(len(label), dtype=torch.bool, device=label.device)
    same, aligned = (label[:, None] == label) & (label >= 0), bias[:, None] == bias
    return Masks(same & aligned & ~itself, same & ~aligned, ~same & aligned, ~same & ~aligned)


def gaussian_kl(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """KL between the Gaussians of x[first] and x[second], population variances floored at 1e-6.

    1/2 [ e^{lv_1 - lv_2} + (μ_1 - μ_2)² e^{-lv_2} - (lv_1 - lv_2) - 1 ]; 0 without gradient when either set has fewer
    than two entries.
    """
    moments = []
    for mask in (first, second):
        n = mask.sum().clamp(min=1)
        mean = (x * mask).sum() / n
        variance = ((x - mean).square() * mask).sum() / n
        moments.append((mean, variance.clamp(min=VARIANCE_FLOOR).log()))
    (mean_1, log_1), (mean_2, log_2) = moments
    value = 0.5 * ((log_1 - log_2).exp() + (mean_1 - mean_2).square() * (-log_2).exp() - (log_1 - log_2) - 1)
    return torch.where((first.sum() > 1) & (second.sum() > 1), value, 0)


class FairKL(Loss):
    """weight · R with R = KL( aligned positives ‖ conflicting positives ) (Barbano et al. 2023, eq. 17).

    Similarities are cosines of the features, pooled over the batch; every view is a sample. A batch with fewer than
    two pairs of either kind costs 0.

    Args:
        weight: λ >= 0.
        semantics: `paper`, as above; `released` is what the authors' code does, which is no KL:
            (μ_pc - μ_pa)² + (μ_na - μ_nc)² + kld [ (σ_pa - σ_pc)² + (σ_na - σ_nc)² ] - μ_pc + μ_na
            with the self-pairs among the aligned, and each σ over all S² entries of similarity times mask.
        kld: weight of the deviations in `released`; unused in `paper`.

    Raises:
        ConfigError: an argument out of range.
    """

    input = "features"
    needs_label = True
    needs_bias = True

    def __init__(self, *, weight: float, semantics: str, kld: float) -> None:
        super().__init__()
        if not weight >= 0:
            raise ConfigError(f"weight must be at least 0, got {weight}: try regularizer.weight=1.0")
        if semantics not in SEMANTICS:
            raise ConfigError(
                f"semantics must be one of {', '.join(SEMANTICS)}, got {semantics}: try regularizer.semantics=paper"
            )
        self.weight, self.semantics, self.kld = weight, semantics, kld

    def diagnostics(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        """{fairkl_empty: 1 when the batch has too few pairs of either kind and costs 0}."""
        assert label is not None and bias is not None
        kinds = masks(*(value.repeat_interleave(z.shape[1]) for value in (label, bias)))
        few = torch.stack([kinds.positive_aligned.sum(), kinds.positive_conflicting.sum()]).amin() < 2
        return {"fairkl_empty": few.float()}

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
        assert label is not None and bias is not None
        views = z.shape[1]
        kinds = masks(label.repeat_interleave(views), bias.repeat_interleave(views))
        z = F.normalize(z, dim=-1).flatten(0, 1)
        similarity = z @ z.T
        if self.semantics == "paper":
            return self.weight * gaussian_kl(similarity, kinds.positive_aligned, kinds.positive_conflicting)
        return self.weight * self._released(similarity, kinds)

    def _released(self, similarity: Tensor, kinds: Masks) -> Tensor:
        with_self = kinds.positive_aligned | torch.eye(len(similarity), dtype=torch.bool, device=similarity.device)
        mean, deviation = [], []
        for mask in kinds._replace(positive_aligned=with_self):
            kept = similarity * mask
            mean.append(kept.sum() / mask.sum().clamp(min=1))
            deviation.append((kept.var() + 1e-24).sqrt())  # a finite gradient for an empty set
        (pa, pc, na, nc), (sd_pa, sd_pc, sd_na, sd_nc) = mean, deviation
        spread = (sd_pa - sd_pc).square() + (sd_na - sd_nc).square()
        return (pc - pa).square() + (na - nc).square() + self.kld * spread - pc + na
