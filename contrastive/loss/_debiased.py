"""The two debiased estimates in log space: the mass of the true negatives and the debiased positive term.

Notation: N negatives with S = Σ_j e^{s_j} and log_mass = log S, p = log mean e^{v} over the positives, temperature t.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.pairs.pairs import log_sub_exp


class NegativeEstimate(NamedTuple):
    """log N g (A,) before its floor, and the floor log N - 1/t."""

    log_mass: Tensor
    log_floor: float | Tensor

    def floored(self) -> Tensor:
        return self.log_mass.clamp(min=self.log_floor)

    def clamped(self) -> Tensor:
        return self.log_mass <= self.log_floor

    def loss(self, positive_logit: Tensor) -> Tensor:
        """-log( e^{s+} / (e^{s+} + N g) ) = softplus(log N g - s+)."""
        return F.softplus(self.floored() - positive_logit)


class PositiveEstimate(NamedTuple):
    """log num (A,) before its floor, log rest (A,) and the floor; num / e^{log_scale} estimates E e^s over a class."""

    log_numerator: Tensor
    log_rest: Tensor
    log_floor: float | Tensor
    log_scale: float

    def floored(self) -> Tensor:
        return self.log_numerator.clamp(min=self.log_floor)

    def log_positive(self) -> Tensor:
        """(A,): log of the mean of e^s over images of the anchor's class, as estimated."""
        return self.floored() - self.log_scale

    def clamped(self) -> Tensor:
        return self.log_numerator <= self.log_floor

    def loss(self) -> Tensor:
        """-log( num / (num + rest) ) = softplus(log rest - log num)."""
        return F.softplus(self.log_rest - self.floored())


def debiased_negatives(
    log_mass: Tensor, log_positive: Tensor, *, n: int, tau_plus: float, temperature: float | Tensor
) -> NegativeEstimate:
    """N g with g = (S / N - τ⁺ e^p) / (1 - τ⁺) (Chuang et al. 2020, eq. 7); τ⁺ = 0 gives S itself."""
    if tau_plus > 0:
        log_mass = log_sub_exp(log_mass, math.log(tau_plus * n) + log_positive)
    return NegativeEstimate(log_mass - math.log1p(-tau_plus), math.log(n) - 1 / temperature)


def debiased_positive(
    log_mass: Tensor,
    log_positive: Tensor,
    *,
    with_self: bool,
    n: int,
    tau_plus: float,
    temperature: float | Tensor,
    n_own: int = 2,
) -> PositiveEstimate:
    """num = (S + e^p + e^{1/t}) / (N + 2) - (1 - τ⁺) S / N and rest = τ⁺ S, both times N (N + 2)
    (Troeshestova & Isachenko 2023, eq. 12); without `with_self` the anchor with itself, e^{1/t}, is left out.

    N (N + 2) num = a S + N (e^p + e^{1/t}) with a = τ⁺ (N + 2) - 2; its floor is τ⁺ e^{-1/t}. `n_own` stands
    for the 2: how many of the N + 2 samples of the mean show the anchor's image, 1 across sources.
    """
    if with_self:
        log_positive = torch.logaddexp(log_positive, 1 / temperature + torch.zeros_like(log_positive))
    log_numerator, a = log_positive + math.log(n), tau_plus * (n + n_own) - n_own
    if a > 0:
        log_numerator = torch.logaddexp(log_numerator, math.log(a) + log_mass)
    elif a < 0:
        log_numerator = log_sub_exp(log_numerator, math.log(-a) + log_mass)
    log_scale = math.log(tau_plus * n * (n + n_own))
    return PositiveEstimate(log_numerator, log_scale + log_mass, log_scale - 1 / temperature, log_scale)


def check_debiased_positive(*, tau_plus: float, batch_size: int, with_self: bool, n_own: int = 2) -> None:
    """Raise ConfigError if num of `debiased_positive` could turn negative, a < -1 (a < 0 without `with_self`)."""
    lacking = n_own - with_self
    if tau_plus * (2 * batch_size - 2 + n_own) < lacking:
        enough = math.ceil((lacking / tau_plus + 2 - n_own) / 2)
        least = math.ceil(10_000 * lacking / (2 * batch_size - 2 + n_own)) / 10_000
        raise ConfigError(
            f"with tau_plus={tau_plus} and batch_size={batch_size} the numerator of debiased positives can become "
            f"negative: try batch_size={enough} or tau_plus={least:g}"
        )


def check_positive_across(*, tau_plus: float, n_negatives: int) -> None:
    """Raise ConfigError if num of `debiased_positive` could turn negative across sources, τ⁺ (N + 1) < 1."""
    if tau_plus * (n_negatives + 1) < 1:
        least = math.ceil(10_000 / (n_negatives + 1)) / 10_000
        raise ConfigError(
            f"with tau_plus={tau_plus} and {n_negatives} negatives the numerator of debiased positives can become "
            f"negative: try tau_plus={least:g}, or a larger teacher.queue"
        )
