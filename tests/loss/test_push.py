"""loss.push: the repulsion of any contrastive loss, multiplied; and the curve that shows it."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive import RINCE, DebiasedPos, NTXent, SupCon
from contrastive.errors import ConfigError
from contrastive.experiment.components import build_loss
from contrastive.experiment.make import make
from contrastive.loss.base import Loss
from contrastive.pairs.tiles import Tiling

T = 0.5
LABEL = torch.tensor([0, 1, 0, 2, 1, 2])


def embeddings() -> Tensor:
    return torch.randn(6, 2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()


def gradient(loss: Loss, z: Tensor, label: Tensor | None = None, anchors: slice = slice(None)) -> Tensor:
    return torch.autograd.grad(loss(z, label, anchors=anchors), z)[0]


def pushed(loss: Loss, push: float) -> Loss:
    loss.push = push
    return loss


def slow_gradient(z: Tensor, *, supervised: bool, push: float) -> Tensor:
    """From the whole matrix of similarities: dL/ds, its negatives multiplied, and back to z."""
    unit = F.normalize(z, dim=-1).flatten(0, 1)
    s = unit @ unit.T / T
    image = torch.arange(6).repeat_interleave(2)
    group = LABEL.repeat_interleave(2) if supervised else image
    others = ~torch.eye(12, dtype=torch.bool)
    positives = (group[:, None] == group[None]) & others
    log_p = s - s.masked_fill(~others, -torch.inf).logsumexp(1, keepdim=True)
    value = -((log_p * positives).sum(1) / positives.sum(1)).mean()
    (to_s,) = torch.autograd.grad(value, s, retain_graph=True)
    to_s = torch.where(group[:, None] != group[None], push * to_s, to_s)
    return torch.autograd.grad(s, z, to_s)[0]


@pytest.mark.parametrize("tiling", [None, Tiling(max_dense_pairs=4, chunk_pairs=24, tile=5)])
@pytest.mark.parametrize("supervised", [False, True])
def test_push_multiplies_the_gradient_on_negatives(supervised: bool, tiling: Tiling | None) -> None:
    z, label = embeddings(), LABEL if supervised else None
    loss = pushed(SupCon(temperature=T) if supervised else NTXent(temperature=T), 4)
    loss.tiling = tiling
    torch.testing.assert_close(gradient(loss, z, label), slow_gradient(z, supervised=supervised, push=4))
    slices = [gradient(loss, z, label, anchors=slice(i, i + 3)) for i in (0, 3)]
    torch.testing.assert_close(torch.stack(slices).mean(0), gradient(loss, z, label))


def test_push_leaves_the_value_and_push_of_one_the_gradient() -> None:
    z = embeddings()
    assert torch.equal(pushed(NTXent(temperature=T), 4)(z), NTXent(temperature=T)(z))
    assert torch.equal(pushed(NTXent(temperature=T), 1)(z), NTXent(temperature=T)(z))
    torch.testing.assert_close(gradient(NTXent(temperature=T), z), slow_gradient(z, supervised=False, push=1))


def test_curve_shows_repulsion_per_attraction() -> None:
    z = embeddings()
    ratio = {push: pushed(NTXent(temperature=T), push).diagnostics(z, None, None) for push in (1.0, 4.0)}
    assert ratio[1.0]["pairs/push_ratio"].item() == pytest.approx(1)
    assert ratio[4.0]["pairs/push_ratio"].item() == pytest.approx(4)
    assert SupCon(temperature=T).diagnostics(z, LABEL, None)["pairs/push_ratio"].item() == pytest.approx(1)


def test_curve_of_debiased_positives_is_their_formula() -> None:
    z = embeddings()[:, :1].detach().repeat(1, 2, 1)  # equal views: 1 + e^{1/t - s+} is 2 for every anchor
    ratio = DebiasedPos(temperature=T, tau_plus=0.5).diagnostics(z, None, None)["pairs/push_ratio"]
    assert ratio.item() == pytest.approx(2)


def test_curve_of_the_oracles_of_debiased_positives() -> None:
    """1 in the paper's form; released 1 + e^{1/t} / (e^{s+} + Σ e^s over the class), here of views that are alike."""
    z = embeddings().detach()
    paper = DebiasedPos(temperature=T, tau_plus=0.5, drop_false_negatives=True)
    assert paper.diagnostics(z, LABEL, None)["pairs/push_ratio"].item() == pytest.approx(1)
    equal = z[:, :1].repeat(1, 2, 1)[[0, 0, 0, 3, 3, 3]]
    released = DebiasedPos(temperature=T, tau_plus=0.5, semantics="released", drop_false_negatives=True)
    ratio = released.diagnostics(equal, torch.tensor([0, 0, 0, 1, 1, 1]), None)["pairs/push_ratio"]
    assert ratio.item() == pytest.approx(1 + 1 / 5)


def test_lam_of_rince_weighs_repulsion_against_attraction() -> None:
    z, lam = embeddings(), 0.1
    unit = F.normalize(z, dim=-1).flatten(0, 1)
    e = (unit @ unit.T / T).exp()
    row = torch.arange(12)
    positive, negative = e[row, row ^ 1], (e * (row[:, None] // 2 != row // 2)).sum(1)
    loss = RINCE(temperature=T, q=1, lam=lam)
    torch.testing.assert_close(loss(z), (lam * negative - (1 - lam) * positive).mean())
    ratio = loss.diagnostics(z, None, None)["pairs/push_ratio"]
    torch.testing.assert_close(ratio, lam * negative.sum() / ((1 - lam) * positive.sum()))


@pytest.mark.parametrize("name", [
    "nt_xent", "debiased_neg", "debiased_pos", "combination", "hard_negative", "decoupled", "dhel", "kcl", "rince",
    "sigmoid", "infonce_anchor", "bcl", "fnc", "glofnd", "sogclr", "supcon", "sincere", "soft_supcon", "eps_supcon",
    "eps_supinfonce", "bias_contrastive", "softcon",
])  # fmt: skip
def test_push_of_every_loss_adds_to_its_gradient_in_proportion(name: str) -> None:
    """All losses of which docs/all_losses.md says so: the value stays, each unit of push adds the same gradient."""
    z, values = embeddings(), set()
    own = {"weights": [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]]} if name == "soft_supcon" else {}

    def at(push: float) -> Tensor:
        loss = make(f"loss/{name}", push=push, **own).double()
        value = loss(z, LABEL, torch.tensor([0, 0, 1, 1, 2, 2]))
        values.add(value.item())
        return torch.autograd.grad(value, z)[0]

    step = at(2) - at(1)
    assert step.abs().max() > 1e-6
    torch.testing.assert_close(at(4) - at(1), 3 * step)
    assert len(values) == 1


def test_push_of_a_loss_without_pairs_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"loss\.push .* try loss=nt_xent"):
        build_loss({"_target_": "contrastive.loss.triplet.Triplet", "push": 2.0})
    with pytest.raises(ConfigError, match=r"loss\.push must be"):
        build_loss({"_target_": "contrastive.loss.nt_xent.NTXent", "push": -1})


def test_make_takes_push_beside_the_options_of_a_loss() -> None:
    assert make("loss/nt_xent", push=4).push == 4
    with pytest.raises(ConfigError, match=r"loss\.push .* try loss=nt_xent"):
        make("loss/triplet", push=4)
    with pytest.raises(ConfigError, match="no option push"):
        make("regularizer/fairkl", push=4)
