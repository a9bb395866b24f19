"""The push of each loss as its docstring states it, beside the measured one of every single anchor."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import contrastive
from contrastive.loss._diagnostics import push_ratio
from contrastive.loss.base import SelfSupervisedLoss, SupervisedContrastiveLoss
from contrastive.testing import check_loss
from docs.make import loss_pages
from tests.loss import explicit_pairs as explicit
from tests.loss.explicit_pairs import Anchor, T

B = 6
LABEL, BIAS = torch.tensor([0, 1, 0, 2, 1, 2]), torch.tensor([0, 1, 1, 0, 0, 1])
Written = SelfSupervisedLoss | SupervisedContrastiveLoss
Form = Callable[[Anchor], float]
Q, LAM, SIGMA, SCALE, GAMMA, NU = 0.3, 0.2, 0.5, 0.8, 1.5, 0.7


def mass(a: Anchor) -> float:
    return float(a.s[a.negative].exp().sum())


def of_other_classes(a: Anchor) -> float:
    return float(a.s[a.negative & ~a.same_label].exp().sum())


def one(a: Anchor) -> float:
    return 1.0


def debiased_pos(a: Anchor) -> float:
    return 1 + math.exp(1 / T - float(a.plus))


def released_oracle(a: Anchor) -> float:
    return 1 + math.exp(1 / T) / float(a.plus.exp() + a.s[a.negative & a.same_label].exp().sum())


def combination(a: Anchor) -> float:
    """τ⁺ 0.09, α 0.5: the pull of each half by its formula."""
    s, e, n, tau = mass(a), math.exp(float(a.plus)), a.n, 0.09
    n_g = (s - tau * n * e) / (1 - tau)
    of_negatives = n_g / (n_g + e) * s / (s - tau * n * e)
    numerator = (s + e + math.exp(1 / T)) / (n + 2) - (1 - tau) * s / n
    of_positives = tau * s / (numerator + tau * s) * e / (n + 2) / numerator
    share = of_positives / (of_negatives + of_positives)
    return 1 + share * math.exp(1 / T - float(a.plus))


def weighted_decoupled(a: Anchor) -> float:
    cosine = T * float(a.plus)
    weight = 2 - math.exp(cosine / SIGMA) / float((a.log_mean_pairs / SIGMA).exp().mean())
    return 1 / (weight - (2 - weight) * cosine / SIGMA)


def kcl(a: Anchor) -> float:
    row = int(a.is_self.nonzero())
    cosines = T * a.s[row % 2 :: 2]  # of the anchor's view
    others = torch.cat([cosines[: row // 2], cosines[row // 2 + 1 :]])
    return float(GAMMA * (2 * SCALE * others).exp().mean() / (2 * SCALE * T * a.plus).exp())


def rince(q: float) -> Form:
    def push(a: Anchor) -> float:
        s, e = mass(a), math.exp(float(a.plus))
        both = LAM**q * (e + s) ** (q - 1)
        return both * s / (e**q - both * e)

    return push


def rince_at_one(a: Anchor) -> float:
    return LAM * mass(a) / ((1 - LAM) * math.exp(float(a.plus)))


def sigmoid(a: Anchor) -> float:
    b = float(torch.tensor(-math.log(2 * B - 2)))
    return float(torch.sigmoid(a.s[a.negative] + b).sum() / torch.sigmoid(-a.plus - b))


def anchored(a: Anchor) -> float:
    s, e = mass(a), math.exp(float(a.plus))
    return s / (NU + s) * (1 + NU * (NU + e + s) / (a.n * (NU + s)))


def with_constant(tiny: float) -> Form:
    def push(a: Anchor) -> float:
        return of_other_classes(a) / (of_other_classes(a) + tiny * math.exp(1 / T))

    return push


# the words of the docstring that state it, the loss, and the push of an anchor
FORMS: dict[str, tuple[str, Written, Form]] = {
    "nt_xent": ("1,", contrastive.NTXent(), one),
    "nt_xent, oracle": ("1,", contrastive.NTXent(drop_false_negatives=True), one),
    "debiased_neg": ("1 above the floor", contrastive.DebiasedNeg(tau_plus=0.02), one),
    "debiased_pos": ("1 + e^{1/t - s+}", contrastive.DebiasedPos(tau_plus=0.3), debiased_pos),
    "debiased_pos, released": ("1 + e^{1/t - s+}", contrastive.DebiasedPos(semantics="released"), debiased_pos),
    "debiased_pos, without self": ("with_self=false", contrastive.DebiasedPos(tau_plus=0.3, with_self=False), one),
    "debiased_pos, oracle": (
        "for the oracle of `paper`", contrastive.DebiasedPos(tau_plus=0.3, drop_false_negatives=True), one,
    ),
    "debiased_pos, released oracle": (
        "1 + e^{1/t} / (e^{s+} + Σ e^{s_j})",
        contrastive.DebiasedPos(semantics="released", drop_false_negatives=True),
        released_oracle,
    ),
    "combination": ("1 + c e^{1/t - p}", contrastive.Combination(tau_plus=0.09), combination),
    "hard_negative": ("1 above the floor", contrastive.HardNegative(tau_plus=0.02), one),
    "decoupled": ("1;", contrastive.Decoupled(), one),
    "decoupled, weighted": ("1 / (w_i - (2 - w_i) c_i / σ)", contrastive.Decoupled(sigma=SIGMA), weighted_decoupled),
    "dhel": ("1 for `paper`", contrastive.DHEL(), one),
    "dhel, released": ("2 for `released`", contrastive.DHEL(semantics="released"), lambda a: 2.0),
    "kcl": ("γ mean_j e^{s_j} / e^{s+}", contrastive.KCL(scale=SCALE, gamma=GAMMA), kcl),
    "rince": ("λ^q E^{q-1} S / (e^{q s+} - λ^q E^{q-1} e^{s+})", contrastive.RINCE(q=Q, lam=LAM), rince(Q)),
    "rince at 1": ("λ S / ((1 - λ) e^{s+}) at q = 1", contrastive.RINCE(q=1, lam=LAM), rince_at_one),
    "rince at 0": ("1 for q towards 0", contrastive.RINCE(q=1e-12, lam=LAM), one),
    "sigmoid": ("Σ_j σ(s_j + b) / σ(-s+ - b)", contrastive.Sigmoid(batch_size=B), sigmoid),
    "infonce_anchor": ("(1 + ν (ν + e^{s+} + S) / (N (ν + S)))", contrastive.InfoNCEAnchor(nu=NU), anchored),
    "bcl": ("1,", contrastive.BCL(), one),
    "fnc": ("1.", contrastive.FNC(top_k=3), one),
    "glofnd": ("1;", contrastive.GloFND(), one),
    "sogclr": ("1 where u_i is the mean of the batch", contrastive.SogCLR(), one),
    "supcon": ("1;", contrastive.SupCon(), one),
    "supcon, in": ("1;", contrastive.SupCon(form="in"), one),
    "sincere": ("1.", contrastive.SINCERE(), one),
    "eps_supcon": ("1;", contrastive.EpsSupCon(epsilon=0.25), one),
    "eps_supcon, released": (
        "1e-6 e^{1/t}", contrastive.EpsSupCon(epsilon=0.25, semantics="released"), with_constant(1e-6),
    ),
    "eps_supinfonce": ("1;", contrastive.EpsSupInfoNCE(epsilon=0.25), one),
    "eps_supinfonce, released": (
        "1e-6 e^{1/t}", contrastive.EpsSupInfoNCE(epsilon=0.25, semantics="released"), with_constant(1e-6),
    ),
    "eps_supinfonce, in": (
        "in form `out`", contrastive.EpsSupInfoNCE(epsilon=0.25, semantics="released", form="in"), one,
    ),
    "bias_contrastive": ("1e-9 e^{1/t}", contrastive.BiasContrastive(), with_constant(1e-9)),
    "softcon": ("1e-9 e^{1/t}", contrastive.SoftCon(), with_constant(1e-9)),
}  # fmt: skip


def embeddings() -> Tensor:
    return torch.randn(B, 2, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


@pytest.mark.parametrize("name", FORMS)
def test_the_push_of_each_anchor_is_the_one_of_the_docstring(name: str) -> None:
    words, loss, form = FORMS[name]
    assert words in loss_pages.push(f"{type(loss).__module__}.{type(loss).__name__}")
    z, loss = embeddings().requires_grad_(), loss.double()
    loss.temperature = loss.temperature if name == "kcl" else T
    (pairs,) = loss.pairs(z, LABEL, BIAS)
    (anchors,) = explicit.anchors(z.detach(), LABEL, BIAS, 1, by_class=isinstance(loss, SupervisedContrastiveLoss))
    measured = [push_ratio(pairs, lambda pairs, i=i: loss.per_anchor(pairs)[i : i + 1]) for i in range(2 * B)]
    assert sum(map(bool, measured)) >= B  # the others have no positive, or are pushed from it
    for found, anchor in zip(measured, anchors, strict=True):
        if found:
            assert found["pairs/push_ratio"].item() == pytest.approx(form(anchor), rel=1e-8)


def test_an_anchor_on_the_floor_is_pulled_alone() -> None:
    z = torch.eye(4, dtype=torch.float64)[:, None].repeat(1, 2, 1)
    for loss in (contrastive.DebiasedNeg(tau_plus=0.5), contrastive.HardNegative(tau_plus=0.5)):
        curves = loss.diagnostics(z, None, None)
        assert curves["pairs/clamped"] == 1
        assert curves["pairs/push_ratio"] == 0


def test_the_push_of_sogclr_is_the_batch_by_the_running_mean() -> None:
    loss = contrastive.SogCLR(temperature=T, gamma=0.6).double()
    loss.log_mean = torch.linspace(0.5, 2, B, dtype=torch.float64)
    loss.index = torch.arange(B)
    (pairs,) = loss.pairs(embeddings().requires_grad_())
    (anchors,) = explicit.anchors(embeddings(), LABEL, BIAS, 1, by_class=False)
    for i, anchor in enumerate(anchors):
        batch = mass(anchor) / (2 * B - 2)
        moved = 0.4 * math.exp(float(loss.log_mean[i // 2])) + 0.6 * batch
        found = push_ratio(pairs, lambda pairs, i=i: loss.per_anchor(pairs)[i : i + 1])["pairs/push_ratio"]
        assert found.item() == pytest.approx(batch / moved)


def test_every_loss_written_in_pairs_states_its_push() -> None:
    classes = [c for name in contrastive.__all__ if isinstance(c := getattr(contrastive, name), type)]
    bases = (SelfSupervisedLoss, SupervisedContrastiveLoss)
    written = {c for c in classes if issubclass(c, Written) and c not in bases}
    stated = {c for c in written if loss_pages.push(f"{c.__module__}.{c.__name__}") != loss_pages.MEASURED}
    assert stated == written
    for loss in written - {type(loss) for _, loss, _ in FORMS.values()} - {contrastive.SoftSupCon}:  # others' own tests
        told = loss_pages.push(f"{loss.__module__}.{loss.__name__}")
        assert not told.startswith("1") or check_loss(loss()).push == pytest.approx(1)
