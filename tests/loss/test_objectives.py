"""The self-supervised objectives beside the debiased ones: slow transcriptions, the authors' values, limits."""

import math
from itertools import permutations

import pytest
import torch
from torch import Tensor

import contrastive
from contrastive import BCL, SINCERE
from contrastive.errors import ConfigError
from contrastive.testing.loss import in_tiles

T = 0.3
B, D = 6, 5
z = torch.randn(B, 2, D, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
unit = z / z.norm(dim=-1, keepdim=True)
ANCHORS = [(i, a) for i in range(B) for a in (0, 1)]


def cos(i: int, a: int, j: int, b: int) -> float:
    return float(unit[i, a] @ unit[j, b])


def others(i: int) -> list[tuple[int, int]]:
    return [(j, b) for j in range(B) if j != i for b in (0, 1)]


def mass(i: int, a: int, *, same_view: bool = False) -> float:
    return sum(math.exp(cos(i, a, j, b) / T) for j, b in others(i) if not same_view or b == a)


def dhel(factor: float) -> float:
    costs = [factor * math.log(mass(i, a, same_view=True)) - cos(i, a, i, 1 - a) / T for i, a in ANCHORS]
    return sum(costs) / len(ANCHORS)


def kernel(i: int, a: int, j: int, b: int, scale: float) -> float:
    return math.exp(-scale * float((unit[i, a] - unit[j, b]).square().sum()))


def kcl(scale: float, gamma: float) -> float:
    alignment = sum(kernel(i, 0, i, 1, scale) for i in range(B)) / B
    pairs = list(permutations(range(B), 2))
    energy = sum(kernel(i, a, j, a, scale) for a in (0, 1) for i, j in pairs) / len(pairs)
    return -2 * alignment + gamma * energy


def spectral(mu: float) -> float:
    pairs = list(permutations(range(B), 2))
    apart = sum(cos(i, 0, j, 1) ** 2 for i, j in pairs) / len(pairs)
    return -2 * sum(cos(i, 0, i, 1) for i in range(B)) / B + mu * apart


def vicreg() -> float:
    invariance = float((z[:, 0] - z[:, 1]).square().sum()) / (B * D)
    variance = covariance = 0.0
    for a in (0, 1):
        x = z[:, a] - z[:, a].mean(0)
        for d in range(D):
            deviation = math.sqrt(float(x[:, d] @ x[:, d]) / (B - 1) + 1e-4)
            variance += max(0.0, 1 - deviation) / D / 2
            covariance += sum((float(x[:, d] @ x[:, e]) / (B - 1)) ** 2 for e in range(D) if e != d) / D
    return 25 * invariance + 25 * variance + covariance


def barlow(lam: float) -> float:
    x, y = ((v - v.mean(0)) / (v.var(0, correction=0) + 1e-5).sqrt() for v in (z[:, 0], z[:, 1]))
    total = 0.0
    for d in range(D):
        for e in range(D):
            c = float(x[:, d] @ y[:, e]) / B
            total += (1 - c) ** 2 if d == e else lam * c**2
    return total


# loss, its transcription above (None: tests/loss/explicit_pairs.py has it), and the authors' code's value on the same z
CASES = {
    "decoupled": (contrastive.Decoupled(temperature=T), None, 2.7762721255588505),
    "decoupled, weighted": (contrastive.Decoupled(temperature=T, sigma=0.5), None, 3.293515132108554),
    "dhel": (contrastive.DHEL(temperature=T), dhel(1), 1.9118332806676945),
    "dhel, released": (contrastive.DHEL(temperature=T, semantics="released"), dhel(2), 4.251859768332042),
    "kcl": (contrastive.KCL(), kcl(2, 16), 1.895395840438381),
    "rince": (contrastive.RINCE(temperature=T), None, -1.708931094852952),
    "rince, q 0.5": (contrastive.RINCE(temperature=T, q=0.5, lam=0.1), None, 0.5719044456381304),
    # the authors' code with float64 as torch's default, in which it computes the ranks
    "bcl": (BCL(temperature=T), None, 3.738541605934015),
    "bcl, alpha 0.6": (BCL(temperature=T, alpha=0.6, beta=0.7, tau_plus=0.05), None, 3.1100852118359583),
    "bcl, nothing known": (BCL(temperature=T, alpha=0.5, beta=0.5), None, 2.8580363697355167),
    "sincere": (SINCERE(temperature=T), None, 3.24089729212044),
    "spectral": (contrastive.Spectral(), spectral(1), -0.05413473165913901),
    # the authors' code divides by mu
    "spectral, mu 3": (contrastive.Spectral(mu=3), spectral(3), 0.3514276534185658),
    "vicreg": (contrastive.VICReg(), vicreg(), 58.088397524895306),
    "barlow": (contrastive.BarlowTwins(), barlow(0.0051), 5.814800091057473),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_value_is_that_of_the_formula_and_of_the_authors_code(case: str) -> None:
    loss, slow, authors = CASES[case]
    value = loss.double()(z, torch.tensor([0, 1, 0, 2, 1, 2])).item()
    assert value == pytest.approx(authors, rel=1e-9)
    assert slow is None or value == pytest.approx(slow, rel=1e-9)


def gradient(loss: contrastive.Loss, label: Tensor | None = None) -> Tensor:
    free = z.clone().requires_grad_()
    (found,) = torch.autograd.grad(loss(free, label), free)
    return found


def test_gradients_of_bcl_and_sincere_are_those_of_the_authors_code() -> None:
    for loss, label, norm, entry in (
        (BCL(temperature=T), None, 0.9873076989716052, -0.1406438587940253),
        (BCL(temperature=T, alpha=0.6, beta=0.7, tau_plus=0.05), None, 0.9466732884210576, -0.15344714560237557),
        (SINCERE(temperature=T), torch.tensor([0, 1, 0, 2, 1, 2]), 0.6420175968542539, -0.04281276432467251),
    ):
        found = gradient(loss, label)
        assert found.norm().item() == pytest.approx(norm, rel=1e-9)
        assert found[0, 0, 0].item() == pytest.approx(entry, rel=1e-9)


@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize("n_equal", [1, 3, 6])
def test_equal_negatives_of_bcl_share_the_highest_rank_as_in_the_authors_code(n_equal: int, tiled: bool) -> None:
    signs = torch.randint(0, 2, (6, 2, 4), generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 2 - 1
    signs[:n_equal] = signs[0, 0]  # cosines are multiples of 1/2, so that ties are exact
    free = signs.clone().requires_grad_()
    loss = BCL(temperature=T, alpha=0.7, beta=0.8)
    value = (in_tiles(loss) if tiled else loss)(free)
    (found,) = torch.autograd.grad(value, free)
    views, image = (signs / 2).flatten(0, 1), torch.arange(12) // 2
    total = 0.0
    for i in range(12):
        s = views[image != image[i]] @ views[i]
        rank = (s <= s[:, None]).double().mean(1)
        positive = math.exp(float(views[i ^ 1] @ views[i]) / T)
        total += math.log1p(float((loss.log_weight(rank).exp() * (s / T).exp()).sum()) / positive)
    assert value.item() == pytest.approx(total / 12, rel=1e-12)
    torch.testing.assert_close(found[:n_equal], found[0, 0].expand_as(found[:n_equal]), rtol=1e-9, atol=1e-12)


def test_learned_temperature_and_bias_get_a_gradient() -> None:
    loss = contrastive.Sigmoid(temperature=T, learn_temperature=True).double()
    for each in (loss, in_tiles(loss)):
        each.zero_grad()
        each(z).backward()
        assert all(value.grad is not None and value.grad != 0 for value in each.parameters())
    step, factor = 1e-5, loss.log_factor
    with torch.no_grad():
        above, below = (loss(z) for end in (step, -step) if factor.fill_(end) is factor)
    torch.testing.assert_close(factor.grad, (above - below) / (2 * step), rtol=1e-5, atol=1e-8)


def test_infonce_anchor_of_small_nu_is_nt_xent() -> None:
    anchor = contrastive.InfoNCEAnchor(temperature=T, nu=1e-9)
    torch.testing.assert_close(anchor(z), contrastive.NTXent(temperature=T)(z), rtol=1e-6, atol=0)


def test_spectral_in_three_views_is_the_mean_over_their_pairs() -> None:
    three = torch.cat([z, z.flip(0)[:, :1]], 1)
    pairs = [contrastive.Spectral()(three[:, [v, w]]) for v, w in ((0, 1), (0, 2), (1, 2))]
    torch.testing.assert_close(contrastive.Spectral()(three), torch.stack(pairs).mean())


def test_fnc_drops_as_many_negatives_as_it_says() -> None:
    alike = contrastive.FNC(temperature=T, top_k=3)(torch.ones_like(z))  # three leave, not all that tie with them
    assert alike.item() == pytest.approx(math.log(2 * B - 1 - 3))
    assert torch.equal(contrastive.FNC(temperature=T, top_k=0)(z), contrastive.NTXent(temperature=T)(z))
    with pytest.raises(ConfigError, match=r"leaves none of the 10 negatives"):
        contrastive.FNC(top_k=10).check_config(batch_size=B)


LABEL = torch.tensor([0, 1, 0, 2, 1, -1])


def test_graded_positives_of_the_identity_are_supcon() -> None:
    loss = contrastive.SoftSupCon(temperature=T, weights=torch.eye(3).tolist())
    torch.testing.assert_close(loss(z, LABEL), contrastive.SupCon(temperature=T)(z, LABEL))
    torch.testing.assert_close(gradient(loss, LABEL), gradient(contrastive.SupCon(temperature=T), LABEL))
