"""Bayesian contrastive loss: negatives weighted by how likely their rank makes them true and hard ones.

Negatives weigh by their rank in similarity to the anchor. The rank says how likely each is to be false, and how hard
it is.

:title: Bayesian contrastive loss
:data: pairs
:when: Classes are few, and the encoder already tells them apart to a degree that you can put a number on.
:memory: B
:checked: authors
:cite: liu2023bcl
:related: debiased_neg, hard_negative, fnc
"""

import torch
from torch import Tensor

from contrastive.errors import check_between, check_tau_plus
from contrastive.loss.nt_xent import NTXent
from contrastive.pairs.pairs import Pairs

TINY = 1e-3  # the authors' constant in a and in the sum of β


class BCL(NTXent):
    """NT-Xent whose negatives are weighted by their rank among the anchor's (Liu et al. 2023, BCL).

        L_i = softplus(log Σ_j ω_j e^{s_j} - s+),    ω_j = h(F_j) / ((1 - τ⁺) g(F_j) + τ⁺ f(F_j))

    over the N = 2B - 2 views j of other images, of which a share u_j is at most as similar to the anchor as j. Let α be
    the probability that a positive is more similar to the anchor than a negative. At the quantile F, positives have the
    density f, true negatives g, and true negatives among which hard ones are preferred by β the density h:

        g(F) = 2α (1 - F) + 2 (1-α) F,    f(F) = 2 (1-α) (1 - F) + 2α F
        h(F) = (2α (1-β) (1 - F) + 2 (1-α) β F) / (α (1-β) + (1-α) β + 1e-3)
        F_j  solves a F² + b F = u_j,  a = (1 - 2α)(1 - 2τ⁺) + 1e-3,  b = 2 (α (1 - τ⁺) + (1-α) τ⁺)

    No gradient reaches the ranks. α = 1/2 makes positives and negatives alike, β = 1/2 prefers none.

    Push: 1, shared out by ω_j e^{s_j}: likely positives can be spared.

    Args:
        temperature: t > 0.
        tau_plus: τ⁺ in [0, 1), the probability that a random image shares the anchor's class.
        alpha: α in [1/2, 1), how well the encoder separates positives from negatives.
        beta: β in [1/2, 1], the preference for hard negatives.

    Shapes: z (B, V, D) → scalar.

    Raises:
        ConfigError: an argument out of range.

    The formula is that of the authors' code (liubin06/BCL); the paper itself was not read. That code can also
    increase α during training, or estimate it with labels. Here it is fixed. The negatives of every anchor are
    sorted, which takes longer than the rest of the loss.

    >>> import torch
    >>> from contrastive import BCL
    >>> z0, z1 = torch.arange(24.0).view(2, 3, 4).cos()  # two views (B, D) of three images
    >>> BCL()(z0, z1)
    tensor(0.7639)
    """

    def __init__(
        self, *, temperature: float = 0.5, tau_plus: float = 0.1, alpha: float = 0.8, beta: float = 1.0
    ) -> None:
        super().__init__(temperature=temperature)
        check_tau_plus(tau_plus, allow_zero=True)
        check_between("alpha", alpha, 0.5, 1, exclude=(1,), example=0.8)
        check_between("beta", beta, 0.5, 1, example=1.0)
        self.tau_plus, self.alpha, self.beta = tau_plus, alpha, beta

    def log_negative_mass(self, pairs: Pairs) -> Tensor:
        return pairs.repel(pairs.log_negative_sum_by_rank(self.log_weight))

    def log_weight(self, rank: Tensor) -> Tensor:
        """log ω for ranks u in (0, 1], of any shape."""
        alpha, beta, tau = self.alpha, self.beta, self.tau_plus
        a = (1 - 2 * alpha) * (1 - 2 * tau) + TINY
        b = 2 * (alpha * (1 - tau) + (1 - alpha) * tau)
        quantile = 2 * rank / (b + torch.sqrt(b * b + 4 * a * rank))  # the root, in a form that no a makes 0 / 0
        rest = 1 - quantile
        hard = (alpha * (1 - beta) * rest + (1 - alpha) * beta * quantile) / (
            alpha * (1 - beta) + (1 - alpha) * beta + TINY
        )
        negative = alpha * rest + (1 - alpha) * quantile
        of_positive = (1 - alpha) * rest + alpha * quantile
        return torch.log(hard) - torch.log((1 - tau) * negative + tau * of_positive)
