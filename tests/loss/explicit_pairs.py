"""Contrastive losses one anchor at a time, from lists of candidates: slow, and written apart from `Pairs`.

An anchor has candidates with logits s_j, each of a known image or of none (the memory), one positive logit s+ and N.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

T = 0.5


@dataclass
class Anchor:
    s: Tensor  # (K,) logits of the candidates, `push` on the gradient of those that repel
    plain: Tensor  # (K,) the same without it
    plus: Tensor  # s+
    negative: Tensor  # (K,) bool: candidates of another image
    is_self: Tensor  # (K,) bool
    same_label: Tensor  # (K,) bool
    other_bias: Tensor  # (K,) bool
    candidate_label: Tensor  # (K,)
    label: int
    n: int
    log_mean_pairs: Tensor  # (B,) cosines of the pairs of all images


def anchors(z: Tensor, label: Tensor, bias: Tensor, push: float, *, by_class: bool, **case) -> list[list[Anchor]]:
    """The anchors of each direction, for the arguments of a call in `case`."""
    z = F.normalize(z, dim=-1)
    n, across, memory = len(z), case.get("across"), case.get("memory")
    keys = F.normalize(case.get("keys", z), dim=-1)
    ids = case.get("ids", torch.arange(n)).tolist()
    ids = [i if i >= 0 else f"unknown {row}" for row, i in enumerate(ids)]
    further = [] if memory is None else list(F.normalize(memory, dim=-1))
    no = [-1] * len(further)
    further_ids = case.get("memory_ids", torch.tensor(no)).tolist()
    further_labels = case.get("memory_label", torch.tensor(no)).tolist()
    views = {"both": [[0], [1]], "first": [[0]], None: [[0, 1]]}[across]
    directions = []
    for group in views:
        source = keys if across else z
        places = [(i, v) for i in range(n) for v in ((1 - group[0],) if across else (0, 1))]
        places = [] if case.get("memory_only") else places
        candidates = [source[i, v] for i, v in places] + further
        image = [ids[i] for i, _ in places] + further_ids
        labels = torch.tensor([int(label[i]) for i, _ in places] + further_labels)
        biases = torch.tensor([int(bias[i]) for i, _ in places] + no)
        of_direction = []
        for i in range(n):
            for v in group:
                s = torch.stack([z[i, v] @ c for c in candidates]) / T
                is_self = torch.tensor([not across and place == (i, v) for place in places] + [False] * len(further))
                negative = torch.tensor([other != ids[i] for other in image])
                same_label = (labels == label[i]) & (labels >= 0)
                repels = negative & ~same_label if by_class else negative
                plain = s
                s = torch.where(repels, push * s - (push - 1) * s.detach(), s)
                plus = z[i, v] @ (keys[i, 1 - v] if across else z[i, 1 - v]) / T
                pairs = (z[:, group[0]] * keys[:, 1 - group[0]]).sum(1) if across else (z[:, 0] * z[:, 1]).sum(1)
                n_negatives = len(candidates) - (0 if case.get("memory_only") else 1 if across else 2)
                same = same_label & ~is_self
                own = (labels, int(label[i]), n_negatives, pairs)
                of_direction.append(Anchor(s, plain, plus, negative, is_self, same, biases != bias[i], *own))
        directions.append(of_direction)
    return directions


def nt_xent(a: Anchor) -> Tensor:
    return (a.plus.exp() + a.s[a.negative].exp().sum()).log() - a.plus


def oracle(a: Anchor) -> Tensor:
    return (a.plus.exp() + a.s[a.negative & ~a.same_label].exp().sum()).log() - a.plus


def debiased(a: Anchor, mass: Tensor, tau: float) -> Tensor:
    g = ((mass / a.n - tau * a.plus.exp()) / (1 - tau)).clamp(min=math.exp(-1 / T))
    return (a.plus.exp() + a.n * g).log() - a.plus


def debiased_neg(a: Anchor) -> Tensor:
    return debiased(a, a.s[a.negative].exp().sum(), 0.1)


def hard_negative(a: Anchor) -> Tensor:
    s = a.s[a.negative]
    mass = a.n * (2 * s).exp().sum() / s.exp().sum() if len(s) else torch.zeros(()).double()
    return debiased(a, mass, 0.1)


def debiased_pos(a: Anchor, tau: float = 0.3, *, with_self: bool = True) -> Tensor:
    with_self, mass = with_self and bool(a.is_self.any()), a.s[a.negative].exp().sum()
    own = a.plus.exp() + (math.exp(1 / T) if with_self else 0)
    mean = (mass + own) / (a.n + (2 if with_self else 1))
    numerator = (mean - (1 - tau) * mass / a.n).clamp(min=tau * math.exp(-1 / T))
    return -(numerator / (numerator + tau * mass)).log()


def without_self(a: Anchor) -> Tensor:
    return debiased_pos(a, 0.1, with_self=False)


def released(a: Anchor) -> Tensor:
    mass = a.s[a.negative].exp().sum()
    numerator = 0.3 * mass + a.plus.exp() + (math.exp(1 / T) if a.is_self.any() else 0)
    return -(numerator / (numerator + a.n * 0.3 * mass)).log()


def combination(a: Anchor) -> Tensor:
    return 0.5 * debiased(a, a.s[a.negative].exp().sum(), 0.3) + 0.5 * debiased_pos(a)


def decoupled(a: Anchor) -> Tensor:
    return (a.s[a.negative].exp().sum().log() if a.negative.any() else 0) - a.plus


def decoupled_weighted(a: Anchor) -> Tensor:
    weight = 2 - (T * a.plus / 0.5).exp() / (a.log_mean_pairs / 0.5).exp().mean()
    return (a.s[a.negative].exp().sum().log() if a.negative.any() else 0) - weight * a.plus


def rince(a: Anchor) -> Tensor:
    everything = a.plus.exp() + a.s[a.negative].exp().sum()
    return -(0.1 * a.plus).exp() / 0.1 + (0.01 * everything) ** 0.1 / 0.1


def sigmoid(a: Anchor) -> Tensor:
    b = float(torch.tensor(-math.log(10)))  # a parameter in float32
    return F.softplus(-(a.plus + b)) + F.softplus(a.s[a.negative] + b).sum()


def infonce_anchor(a: Anchor) -> Tensor:
    mass, nu = a.s[a.negative].exp().sum(), 0.7
    which = -(a.plus.exp() / (nu + a.plus.exp() + mass)).log()
    none = -(nu / (nu + mass)).log()
    return a.n / (a.n + nu) * which + nu / (a.n + nu) * none


def bcl(a: Anchor) -> Tensor:
    """One negative at a time, the quantile by bisection."""
    s, plain, alpha, beta, tau, tiny = a.s[a.negative], a.plain[a.negative].tolist(), 0.7, 0.8, 0.1, 1e-3
    total = torch.zeros((), dtype=torch.float64)
    for j in range(len(s)):
        u = sum(other <= plain[j] for other in plain) / len(s)
        low, high = 0.0, 1.0
        for _ in range(100):
            q = (low + high) / 2
            of_all = (1 - 2 * alpha) * (1 - 2 * tau) * q**2 + tiny * q**2 + 2 * (alpha + tau - 2 * alpha * tau) * q
            low, high = (q, high) if of_all < u else (low, q)
        negative, positive = 2 * alpha * (1 - q) + 2 * (1 - alpha) * q, 2 * (1 - alpha) * (1 - q) + 2 * alpha * q
        hard = 2 * alpha * (1 - beta) * (1 - q) + 2 * (1 - alpha) * beta * q
        hard /= alpha * (1 - beta) + (1 - alpha) * beta + tiny
        total = total + s[j].exp() * hard / ((1 - tau) * negative + tau * positive)
    return (a.plus.exp() + total).log() - a.plus


def fnc(a: Anchor) -> Tensor:
    s = a.s[a.negative].sort().values
    return (a.plus.exp() + s[: max(0, len(s) - 3)].exp().sum()).log() - a.plus


def sogclr(a: Anchor) -> Tensor:
    return (a.s[a.negative].exp().sum().log() - math.log(a.n) if a.negative.any() else 0) - a.plus


def supcon(a: Anchor) -> Tensor:
    return a.s[~a.is_self].logsumexp(0) - a.s[a.same_label].mean() if a.same_label.any() else a.plus * 0


def supcon_in(a: Anchor) -> Tensor:
    mean = a.s[a.same_label].exp().mean().log() if a.same_label.any() else 0
    return a.s[~a.is_self].logsumexp(0) - mean if a.same_label.any() else a.plus * 0


def eps_supcon(a: Anchor) -> Tensor:
    total = (a.s[a.same_label] - 0.25).exp().sum() + a.s[a.candidate_label != a.label].exp().sum()
    return total.log() - a.s[a.same_label].mean() if a.same_label.any() else a.plus * 0


def eps_supinfonce(a: Anchor) -> Tensor:
    mass = a.s[a.candidate_label != a.label].exp().sum()
    p = a.s[a.same_label]
    return (((p - 0.25).exp() + mass).log() - p).mean() if len(p) else a.plus * 0


def sincere(a: Anchor) -> Tensor:
    mass = a.s[a.candidate_label != a.label].exp().sum()
    p = a.s[a.same_label]
    return -(p.exp() / (p.exp() + mass)).log().mean() if len(p) else a.plus * 0


WEIGHTS = [[1, 0.5, 0], [0.5, 1, 0.2], [0, 0.2, 1]]


def soft_supcon(a: Anchor) -> Tensor:
    weights = [WEIGHTS[a.label][c] if c >= 0 else 0.0 for c in a.candidate_label.tolist()]
    w = torch.tensor(weights).double() * ~a.is_self
    return a.s[~a.is_self].logsumexp(0) - (w * a.plain).sum() / w.sum()


def bias_contrastive(a: Anchor) -> Tensor:
    p = a.same_label & a.other_bias
    total = a.s[~a.is_self].exp().sum() + 1e-9 * math.exp(1 / T)
    return total.log() - a.s[p].mean() if p.any() else a.plus * 0
