"""Every loss against lists of candidates: views of one source, two sources, a memory and equal ids."""

import copy
import itertools

import pytest
import torch
from torch import Tensor

import contrastive
from contrastive.errors import ConfigError
from contrastive.experiment.make import make
from contrastive.loss.base import Loss
from contrastive.pairs.tiles import Tiling
from contrastive.testing.loss import in_tiles
from tests.helpers import further
from tests.loss import explicit_pairs as explicit
from tests.loss.explicit_pairs import T

B, D, K = 6, 4, 5
LABEL, BIAS = torch.tensor([0, 1, 0, 2, 1, 2]), torch.tensor([0, 0, 1, 1, 0, 1])
IDS = torch.tensor([4, 7, 4, -1, -1, 2])
MEMORY = {"memory": 1, "memory_label": torch.tensor([0, -1, 2, 1, 1])}
CASES = {
    "views": {},
    "both": {"across": "both"},
    "first": {"across": "first"},
    "keys": {"across": "both", "keys": 1},
    "keys, first": {"across": "first", "keys": 1},
    "memory": MEMORY,
    "memory across": {"across": "both", **MEMORY},
    "keys and memory": {"across": "both", "keys": 1, **MEMORY},
    "memory only": {"across": "first", "memory": 1, "memory_only": True},
    "memory only, keys": {"across": "both", "memory": 1, "memory_only": True, "keys": 1},
    "views, memory only": {"memory": 1, "memory_only": True},
    "ids": {"ids": IDS},
    "ids across": {"across": "both", "ids": IDS},
    "one id": {"across": "both", "ids": torch.zeros(B).long()},
    "ids and memory": {"across": "both", "ids": IDS, "memory_ids": torch.tensor([2, -1, 9, 4, 4]), **MEMORY},
}
SELF_SUPERVISED = {
    "nt_xent": contrastive.NTXent(),
    "oracle": contrastive.NTXent(drop_false_negatives=True),
    "debiased_neg": contrastive.DebiasedNeg(),
    "hard_negative": contrastive.HardNegative(),
    "debiased_pos": contrastive.DebiasedPos(tau_plus=0.3),
    "without_self": contrastive.DebiasedPos(tau_plus=0.1, with_self=False),
    "released": contrastive.DebiasedPos(tau_plus=0.3, semantics="released"),
    "combination": contrastive.Combination(tau_plus=0.3),
    "decoupled": contrastive.Decoupled(),
    "decoupled_weighted": contrastive.Decoupled(sigma=0.5),
    "rince": contrastive.RINCE(),
    "sigmoid": contrastive.Sigmoid(batch_size=6),
    "infonce_anchor": contrastive.InfoNCEAnchor(nu=0.7),
    "bcl": contrastive.BCL(alpha=0.7, beta=0.8),
    "fnc": contrastive.FNC(top_k=3),
    "glofnd": contrastive.GloFND(),
    "sogclr": contrastive.SogCLR(),
}
SUPERVISED = {
    "supcon": contrastive.SupCon(),
    "supcon_in": contrastive.SupCon(form="in"),
    "sincere": contrastive.SINCERE(),
    "eps_supcon": contrastive.EpsSupCon(epsilon=0.25),
    "eps_supinfonce": contrastive.EpsSupInfoNCE(epsilon=0.25),
    "soft_supcon": contrastive.SoftSupCon(weights=explicit.WEIGHTS),
    "bias_contrastive": contrastive.BiasContrastive(),
}
ALL = SELF_SUPERVISED | SUPERVISED


def taken(loss: Loss, case: dict) -> bool:
    """Whether the loss has a meaning for the case."""
    uses = [name for name in ("keys", "memory", "memory_only", "ids") if name in case]
    return {*uses, *([case["across"]] if "across" in case else [])} <= set(loss.takes)


def scene(case: dict) -> tuple[list[Tensor], dict]:
    """The leaves (z and what of keys and memory the case has) and the arguments of the call."""
    rng = torch.Generator().manual_seed(0)
    shapes = {"z": (B, 2, D), "keys": (B, 2, D), "memory": (K, D)}
    leaves = {name: torch.randn(*shape, generator=rng, dtype=torch.float64) for name, shape in shapes.items()}
    used = {name: leaf.requires_grad_() for name, leaf in leaves.items() if name == "z" or name in case}
    return [*used.values()], {**case, **{name: leaf for name, leaf in used.items() if name != "z"}}


def slow(name: str, z: Tensor, case: dict, push: float) -> Tensor:
    formula = explicit.nt_xent if name == "glofnd" else getattr(explicit, name)
    directions = explicit.anchors(z, LABEL, BIAS, push, by_class=name in SUPERVISED or name == "oracle", **case)
    return torch.stack([torch.stack([formula(a) for a in group]).mean() for group in directions]).mean()


def value_and_gradients(value: Tensor, leaves: list[Tensor]) -> tuple[Tensor, ...]:
    return value.detach(), *torch.autograd.grad(value, leaves, materialize_grads=True)


CHOSEN = [(name, case) for name, case in itertools.product(ALL, CASES) if taken(ALL[name], CASES[case])]


@pytest.mark.parametrize("push", [1.7, *further(1)])
@pytest.mark.parametrize(("name", "case"), CHOSEN)
def test_every_loss_is_the_one_of_its_lists_of_candidates(name: str, case: str, push: float) -> None:
    (z, *others), arguments = scene(CASES[case])
    leaves = [z, *others]
    expected = value_and_gradients(slow(name, z, arguments, push), leaves)
    dense = in_tiles(ALL[name].double(), Tiling(2048**2, 2**22, 1024))
    dense.push = push
    for loss in (dense, in_tiles(dense), in_tiles(dense, Tiling(max_dense_pairs=0, chunk_pairs=7, tile=2))):
        value = loss(z, LABEL, BIAS, **arguments)
        torch.testing.assert_close(value_and_gradients(value, leaves), expected, rtol=1e-12, atol=1e-13)
        parts = torch.stack([loss(z, LABEL, BIAS, anchors=slice(i, i + 2), **arguments) for i in (0, 2, 4)])
        torch.testing.assert_close(value_and_gradients(parts.mean(), leaves), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("case", ["both", "memory"])
def test_a_temperature_that_a_loop_learns_has_its_gradient(name: str, case: str) -> None:
    (z, *_), arguments = scene(CASES[case])
    if not taken(ALL[name], arguments):
        return
    for loss in (copy.deepcopy(ALL[name]).double(), in_tiles(ALL[name].double())):
        values = []
        for t in (T - 1e-5, T + 1e-5):
            loss.temperature = t
            values.append(loss(z, LABEL, BIAS, **arguments).item())
        loss.temperature = t = torch.tensor(T, dtype=torch.float64, requires_grad=True)
        (gradient,) = torch.autograd.grad(loss(z, LABEL, BIAS, **arguments), t)
        assert gradient.item() == pytest.approx((values[1] - values[0]) / 2e-5, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize(
    ("name", "way", "other"),
    [
        *((name, "both", "first") for name in ("dhel", "kcl", "barlow", "vicreg", "spectral", "lejepa")),
        *((name, "first", "both") for name in ("npair", "triplet")),
    ],
)
def test_losses_that_know_one_way_to_be_across_are_so_already(name: str, way: str, other: str) -> None:
    (z,), _ = scene({})
    loss = make(f"loss/{name}")
    assert loss(z, across=way) == loss(z)
    if loss.takes == ("both", "ids"):
        loss.curves = curves = {}
        loss(z, across="both")
        assert curves == loss.diagnostics(z, None, None)
    with pytest.raises(ConfigError, match=f"cannot be used with across='{other}'"):
        loss(z, across=other)


def test_equal_ids_thin_what_each_view_is_spread_over() -> None:
    (z,), _ = scene({})
    unit = torch.nn.functional.normalize(z, dim=-1)
    ids = [4, 7, 4, 10, 11, 2]  # those of IDS
    dhel, kcl = [], []
    for i, v in itertools.product(range(B), (0, 1)):
        s = torch.stack([unit[i, v] @ unit[j, v] for j in range(B) if ids[j] != ids[i]])
        plus = unit[i, v] @ unit[i, 1 - v]
        dhel.append((s / T).exp().sum().log() - plus / T)
        kcl.append(2 * (16 * (4 * s - 4).exp().sum() / (B - 1) - (4 * plus - 4).exp()))
    torch.testing.assert_close(contrastive.DHEL()(z, ids=IDS), torch.stack(dhel).mean())
    torch.testing.assert_close(contrastive.KCL()(z, ids=IDS), torch.stack(kcl).mean())
    one = contrastive.DHEL()(z, ids=torch.zeros(B).long())
    torch.testing.assert_close(one, -(unit[:, 0] * unit[:, 1]).sum(1).mean() / T)


@pytest.mark.parametrize("arguments", [{}, {"across": "both"}, {"across": "first"}])
def test_softcon_weighs_positives_of_the_other_source(arguments: dict) -> None:
    (z,), _ = scene({})
    loss, rows, label = contrastive.SoftCon(), torch.tensor([9, 3, 5, 1, 0, 7]), torch.tensor([0, 0, 0, 1, 1, 1])
    loss.features = torch.nn.functional.normalize(torch.rand(10, 3, generator=torch.Generator().manual_seed(1)), dim=1)
    f = loss.features[rows].double()
    n_views = 1 if arguments else 2
    values = []
    for direction in explicit.anchors(z, label, BIAS, 1, by_class=True, **arguments):
        of_anchors = []
        for place, a in enumerate(direction):
            w = (1 - f @ f[place // n_views]).repeat_interleave(n_views) * (a.same_label & a.negative)
            denominator = (a.s[~a.is_self].exp().sum() + 1e-9 * torch.tensor(2.0).double().exp()).log()
            of_anchors.append(denominator - (w * a.s).sum() / w.sum())
        values.append(torch.stack(of_anchors).mean())
    torch.testing.assert_close(loss(z, label, BIAS, index=rows, **arguments), torch.stack(values).mean())


@pytest.mark.parametrize("name", ["sogclr", "glofnd"])
def test_a_number_for_each_image_beside_ids_and_keys(name: str) -> None:
    """Ids that are all different change nothing; the anchors of both directions against keys share the number."""
    (z,), _ = scene({})
    rows = torch.tensor([9, 3, 5, 1, 0, 7])
    states = []
    for arguments in ({}, {"ids": torch.arange(B)}, {"across": "both", "keys": z}):
        loss = make(f"loss/{name}", **({"start": 0, "alpha": 0.4} if name == "glofnd" else {}))
        loss.prepare(contrastive.Split(torch.zeros(10, 3, 1, 1), torch.arange(10)), n_classes=10, dim=D)
        loss = loss.double()
        for _ in range(2):
            value = loss(z.detach(), index=rows, **arguments)
            loss.after_step(contrastive.gather)
        state = next(iter(loss.buffers()))
        states.append((value, state))
        assert state[rows].isfinite().all()
        assert (state[[2, 4, 6, 8]] == state[2]).all()
    torch.testing.assert_close(states[0], states[1], rtol=0, atol=0)
    assert states[2][0] != states[0][0]
    with pytest.raises(ConfigError, match="two sources need one each: try a loss for each direction, across='first'"):
        loss(z, index=rows, across="both")


def test_a_call_that_failed_leaves_nothing_for_the_next() -> None:
    class Fails(contrastive.NTXent):
        def per_anchor(self, pairs: contrastive.Pairs) -> Tensor:
            if pairs.keys is not None:
                raise ValueError("no")
            return super().per_anchor(pairs)

    (z,), _ = scene({})
    loss = Fails()
    with pytest.raises(ValueError, match="no"):
        loss(z, across="both")
    assert loss(z) == contrastive.NTXent()(z)


def test_one_image_has_the_negatives_of_the_memory() -> None:
    z, memory = torch.randn(1, 2, D), torch.randn(K, D)
    loss = contrastive.NTXent()
    assert loss(z) == loss(z, across="both") == 0
    assert loss(z, memory=memory) > 0
    assert loss(z, memory=memory, across="first") > 0


def test_curves_of_two_sources_are_the_mean_of_both_directions() -> None:
    (z,), _ = scene({})
    loss = contrastive.DebiasedPos(tau_plus=0.5)
    curves: dict[str, dict[str, Tensor]] = {}
    for name, views in {"first": z, "second": z.flip(1)}.items():
        loss.curves = curves[name] = {}
        loss(views, LABEL, across="first")
    loss.curves = both = {}
    loss(z, LABEL, across="both")
    assert both["pairs/push_ratio"].item() == pytest.approx(1)  # the anchor with itself is not there
    assert {"pairs/clamped", "debiasing/positive_estimate", "debiasing/gradient_on_false_negatives"} <= both.keys()
    for key, value in both.items():
        torch.testing.assert_close(value, (curves["first"][key] + curves["second"][key]) / 2)


@pytest.mark.parametrize(
    "arguments", [{"across": "both"}, *further({}, {"across": "first"}, {"memory": 1}, {"ids": IDS})]
)
def test_calls_compile_into_one_graph(arguments: dict) -> None:
    (z, *_), arguments = scene(arguments)
    loss = contrastive.DebiasedPos(tau_plus=0.3)
    torch.compiler.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    found, expected = (each(z[:, 0], z[:, 1], LABEL, **arguments) for each in (compiled, loss))
    torch.testing.assert_close(found, expected)


Z = torch.zeros(B, 2, D)
REFUSED = [
    ({"across": True}, "across must be one of both, first, got True: try across=both"),
    ({"across": "both", "z": torch.zeros(B, 3, D)}, r"compares two sources, got 3 views: try loss\(z0, z1, across="),
    ({"keys": Z}, "keys are the candidates of another source: try across='both'"),
    ({"keys": Z[:, 0], "across": "both"}, r"keys must have the shape \(B, 2, D\) = \(6, 2, 4\), got \(6, 4\)"),
    ({"memory": torch.zeros(K, D + 1)}, r"memory must have the shape \(K, D\) = \(5, 4\), got \(5, 5\)"),
    ({"memory": torch.zeros(K, D), "memory_label": LABEL}, r"memory_label must have the shape \(K,\) = \(5,\)"),
    ({"memory_only": True}, "describe a memory: try memory=queue"),
    ({"memory": torch.zeros(K, D), "memory_ids": torch.arange(K)}, "compared with ids of the batch: try ids=index"),
    ({"ids": torch.arange(K)}, r"ids must have the shape \(B,\) = \(6,\), got \(5,\)"),
    ({"loss": contrastive.SupCon(), "ids": IDS}, "SupCon cannot be used with ids: leave it out, or try NTXent"),
    ({"loss": contrastive.DHEL(), "memory": torch.zeros(K, D)}, "DHEL cannot be used with memory: leave it out"),
    ({"loss": contrastive.FairKL(), "across": "both"}, "FairKL cannot be used with across='both'"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "sentence"), REFUSED)
def test_what_makes_no_sense_is_refused_in_a_sentence(arguments: dict, sentence: str) -> None:
    loss, z = arguments.pop("loss", contrastive.NTXent()), arguments.pop("z", Z)
    with pytest.raises(ConfigError, match=sentence):
        loss(z, LABEL, BIAS, **arguments)
