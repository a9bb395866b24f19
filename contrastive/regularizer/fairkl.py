"""FairKL regularizer: match the similarity distributions of bias-aligned and bias-conflicting pairs."""

from typing import NamedTuple

import torch
from torch import Tensor

from contrastive.errors import check_above, check_at_least, check_between, check_choice
from contrastive.loss.base import SampleLoss
from contrastive.types import unit

SEMANTICS = ("released", "running", "paper")
VARIANCE_FLOOR = 1e-6  # of the literal KL


class Masks(NamedTuple):
    """(S, S) bool each: pairs of the same class (positive) or not, of the same bias (aligned) or not; self excluded.

    The masks are symmetric: every unordered pair appears twice.
    """

    positive_aligned: Tensor
    positive_conflicting: Tensor
    negative_aligned: Tensor
    negative_conflicting: Tensor


class Moments(NamedTuple):
    """Mean and population variance of similarities, and whether they hold more than one unordered pair."""

    mean: Tensor
    variance: Tensor
    is_defined: Tensor


def masks(label: Tensor, bias: Tensor) -> Masks:
    """The four kinds of pairs among samples with these labels and biases (S,)."""
    diagonal = torch.eye(len(label), dtype=torch.bool, device=label.device)
    same, aligned = (label[:, None] == label) & (label >= 0), bias[:, None] == bias
    return Masks(same & aligned & ~diagonal, same & ~aligned, ~same & aligned, ~same & ~aligned)


def moments(x: Tensor, mask: Tensor) -> Moments:
    """The moments of x under a symmetric mask; zeros where it is empty."""
    n = mask.sum().clamp(min=1)
    mean = (x * mask).sum() / n
    return Moments(mean, ((x - mean).square() * mask).sum() / n, mask.sum() > 2)  # an unordered pair is two entries


def kl_divergence(mean_1: Tensor, log_1: Tensor, mean_2: Tensor, log_2: Tensor) -> Tensor:
    """KL of two Gaussians by mean and log-variance: 1/2 [ e^{l_1 - l_2} + (μ_1 - μ_2)² e^{-l_2} - (l_1 - l_2) - 1 ]."""
    return 0.5 * ((log_1 - log_2).exp() + (mean_1 - mean_2).square() * (-log_2).exp() - (log_1 - log_2) - 1)


def gaussian_kl(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """KL between the Gaussians of x[first] and x[second], population variances floored at 1e-6.

    0 without gradient unless both symmetric masks hold more than one unordered pair (a single pair has no variance).
    """
    one, two = moments(x, first), moments(x, second)
    log_1, log_2 = (part.variance.clamp(min=VARIANCE_FLOOR).log() for part in (one, two))
    return torch.where(one.is_defined & two.is_defined, kl_divergence(one.mean, log_1, two.mean, log_2), 0)


class FairKL(SampleLoss):
    """weight · R: similarities should not depend on whether samples share the bias (Barbano et al. 2023, eq. 17).

        R = Σ_s KL( aligned ‖ conflicting ),  s = positives, negatives
        KL = 1/2 [ (σ_a² + (μ_a - μ_c)²) / σ_c² - log(σ_a² / σ_c²) - 1 ]

    Similarities are cosines of the features, pooled over the batch. Every view is a sample. A KL is 0 for a batch
    with fewer than two pairs of either kind. `released` counts an empty set as mean 0, as the authors' code does.

    Args:
        weight: λ >= 0.
        semantics: the form of R.
            `released` (default), the moment matching of the authors' code, which is not a KL:
            (μ_pc - μ_pa)² + (μ_na - μ_nc)² + kld [ (σ_pa - σ_pc)² + (σ_na - σ_nc)² ] - μ_pc + μ_na
            with the self-pairs among the aligned, and each σ over all S² entries of similarity times mask.
            `running`: the KL over positives and negatives, with σ_c² a running average over batches and a constant for
            the gradient.
            `paper`: the KL as printed, over positives only, σ_c² of the batch. It lowers accuracy: see below.
        momentum: share of the past in the running average, in [0, 1); `running` only.
        variance_floor: least variance, above 0; `running` only (`paper`: 1e-6).
        kld: weight of the deviations in `released`.

    The default is what the authors ran. On biased digits with eps-SupInfoNCE and weight 1, the linear probe classifies
    this percentage of the bias-conflicting test images (mean ± std of three seeds, table biased_digits_forms):

        rho     without FairKL   released      running       paper
        0.95    58.4 ± 5.3       68.3 ± 1.1    84.6 ± 1.3    37.2 ± 26.1
        0.99    11.1 ± 3.4       19.6 ± 3.3    43.5 ± 9.2    10.5 ± 1.4

    In `paper` the factor 1/σ_c² of a few similar values is huge. These runs have a ReLU at the encoder's end. With a
    Tanh `running` has 79.6 ± 1.3 and 20.8 ± 11.6.

    Shapes: features (B, V, F), label (B,), bias (B,) → scalar.

    Raises:
        ConfigError: an argument out of range.
    """

    input = "features"
    needs_label = True
    needs_bias = True

    def __init__(
        self,
        *,
        weight: float = 1.0,
        semantics: str = "released",
        momentum: float = 0.9,
        variance_floor: float = 1e-3,
        kld: float = 1.0,
    ) -> None:
        super().__init__()
        check_at_least("weight", weight, 0, example=1.0)
        check_between("momentum", momentum, 0, 1, exclude=(1,), example=0.9)
        check_above("variance_floor", variance_floor, 0, example=1e-3)
        check_choice("semantics", semantics, SEMANTICS)
        self.weight, self.semantics, self.kld = weight, semantics, kld
        self.momentum, self.variance_floor = momentum, variance_floor
        self.running: Tensor
        if semantics == "running":
            self.exempt_from = {"gradient": "the running variance is a constant for it"}
            # Sums over batches, of the conflicting positives and negatives: weights, and weighted variances.
            self.register_buffer("running", torch.zeros(2, 2))

    def diagnostics(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        """{pairs/fairkl_empty: 1 if the batch has fewer than two positive pairs of either kind, so that a KL is 0}."""
        if label is None or bias is None:
            return {}
        kinds = masks(label.repeat_interleave(z.shape[1]), bias.repeat_interleave(z.shape[1]))
        is_empty = (kinds.positive_aligned.sum() <= 2) | (kinds.positive_conflicting.sum() <= 2)
        return {"pairs/fairkl_empty": is_empty.float()}

    def per_batch(self, x: Tensor, label: Tensor, bias: Tensor) -> Tensor:
        x = unit(x)
        similarity, kinds = x @ x.T, masks(label, bias)
        if self.semantics == "paper":
            return self.weight * gaussian_kl(similarity, kinds.positive_aligned, kinds.positive_conflicting)
        if self.semantics == "released":
            return self.weight * self._released(similarity, kinds)
        positives = self._running_kl(similarity, kinds.positive_aligned, kinds.positive_conflicting, row=0)
        negatives = self._running_kl(similarity, kinds.negative_aligned, kinds.negative_conflicting, row=1)
        return self.weight * (positives + negatives)

    def _running_kl(self, similarity: Tensor, aligned: Tensor, conflicting: Tensor, *, row: int) -> Tensor:
        """The KL with a running σ_c², this batch included, of the positives (row 0) or the negatives (row 1)."""
        a, c = moments(similarity, aligned), moments(similarity, conflicting)
        entry = torch.stack([torch.ones_like(c.variance), c.variance]).detach()
        updated = self.momentum * self.running[row] + (1 - self.momentum) * entry
        running = torch.where(c.is_defined, updated, self.running[row])
        if torch.is_grad_enabled():  # a point of a curve must not change the training
            self.running[row] = running
        variance = running[1] / running[0].clamp(min=1e-12)
        log_a, log_c = (value.clamp(min=self.variance_floor).log() for value in (a.variance, variance))
        return torch.where(a.is_defined & c.is_defined, kl_divergence(a.mean, log_a, c.mean, log_c), 0)

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
