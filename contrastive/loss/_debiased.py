"""The two debiased estimates, in log space: of the negatives' mass and of the positives' share.

Notation: N negatives with S = Σ_j e^{s_j} (mass = log S), p = log mean e^{v} over the positives, temperature t.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.pairs.pairs import log_sub_exp


class Estimate(NamedTuple):
    """-log( num / (num + rest) ) with num kept above its floor: log values (A,), floor a number."""

    numerator: Tensor
    rest: Tensor
    floor: float

    def loss(self) -> Tensor:
        return F.softplus(self.rest - self.numerator.clamp(min=self.floor))

    def clamped(self) -> Tensor:
        return self.numerator <= self.floor


class NegativeMass(NamedTuple):
    """log N g before its floor (A,), and the floor log N - 1/t."""

    mass: Tensor
    floor: float

    def loss(self, mate: Tensor) -> Tensor:
        """softplus(log N g - s+): -log( e^{s+} / (e^{s+} + N g) )."""
        return F.softplus(self.mass.clamp(min=self.floor) - mate)

    def clamped(self) -> Tensor:
        return self.mass <= self.floor


def debiased_negatives(mass: Tensor, positive: Tensor, *, n: int, tau_plus: float, temperature: float) -> NegativeMass:
    """N g with g = (S / N - τ⁺ e^p) / (1 - τ⁺) (Chuang et al. 2020, eq. 7); τ⁺ = 0 is S itself."""
    if tau_plus > 0:
        mass = log_sub_exp(mass, math.log(tau_plus * n) + positive)
    return NegativeMass(mass - math.log1p(-tau_plus), math.log(n) - 1 / temperature)


def check_debiased_positive(*, tau_plus: float, batch_size: int, own: bool) -> None:
    """Raise ConfigError where the numerator of `debiased_positive` could lose its sign: τ⁺ B < 1/2, or < 1 without own."""
    least = 0.5 if own else 1.0
    if not tau_plus * batch_size >= least:
        raise ConfigError(
            f"debiased positives with tau_plus={tau_plus} and batch_size={batch_size} let their numerator go negative "
            f"(tau_plus * batch_size must be at least {least}): try batch_size={math.ceil(least / tau_plus)}"
        )


def debiased_positive(
    mass: Tensor, positive: Tensor, *, own: bool, n: int, tau_plus: float, temperature: float
) -> Estimate:
    """num = (S + e^p + e^{1/t}) / (N + 2) - (1 - τ⁺) S / N and rest = τ⁺ S, both times N (N + 2)
    (Troeshestova & Isachenko 2023, eq. 12); without `own` the anchor itself, e^{1/t}, is left out.

    N (N + 2) num = a S + N (e^p + e^{1/t}) with a = τ⁺ (N + 2) - 2; its floor is τ⁺ e^{-1/t}.
    """
    if own:
        positive = torch.logaddexp(positive, torch.full_like(positive, 1 / temperature))
    numerator, a = positive + math.log(n), tau_plus * (n + 2) - 2
    if a > 0:
        numerator = torch.logaddexp(numerator, math.log(a) + mass)
    elif a < 0:
        numerator = log_sub_exp(numerator, math.log(-a) + mass)
    scale = math.log(tau_plus * n * (n + 2))
    return Estimate(numerator, scale + mass, scale - 1 / temperature)
