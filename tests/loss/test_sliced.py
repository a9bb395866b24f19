"""LeJEPA and VISReg: slow transcriptions, the authors' value, limits, and the directions they draw."""

import math
from statistics import NormalDist

import pytest
import torch
from torch import Tensor

from contrastive import LeJEPA, Split, VISReg

B, V, D, M = 6, 3, 5, 8
z = torch.randn(B, V, D, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
BOTH = pytest.mark.parametrize("kind", [LeJEPA, VISReg])


def direction(number: int, draw: int) -> list[float]:
    """The unit vector of this number, in whole numbers and the standard library's normal distribution."""

    def mixed(x: int) -> int:
        x = (x ^ x >> 16) * 0x21F0AAAD % 2**32
        x = (x ^ x >> 15) * 0x735A2D97 % 2**32
        return x ^ x >> 15

    bits = [mixed(mixed(number * D + d) ^ mixed(draw)) >> 9 for d in range(D)]
    normal = [NormalDist().inv_cdf((2 * k + 1) / 2**24) for k in bits]
    return [x / math.hypot(*normal) for x in normal]


def invariance() -> float:
    center = z.mean(1)
    return sum(float((z[i, v] - center[i]).square().sum()) for i in range(B) for v in range(V)) / (B * V * D)


def along(number: int, x: Tensor) -> list[float]:
    return [sum(a * float(b) for a, b in zip(direction(number, 0), row, strict=True)) for row in x]


def lejepa() -> float:
    """With the whole axis, from -3 to 3, and complex numbers."""
    total, step = 0.0, 3 / 16
    for v in range(V):
        for m in range(M):
            x = along(m, z[:, v])
            for k in range(-16, 17):
                t = k * step
                empirical = sum(complex(math.cos(t * y), math.sin(t * y)) for y in x) / B
                weight = step * math.exp(-t * t / 2) * (0.5 if abs(k) == 16 else 1)
                total += weight * B * abs(empirical - math.exp(-t * t / 2)) ** 2 / (V * M)
    return 0.95 * invariance() + 0.05 * total


def visreg(scale: float, shape: float, center: float) -> float:
    costs = {"scale": 0.0, "shape": 0.0, "center": 0.0}
    for v in range(V):
        mean = [sum(z[i, v, d].item() for i in range(B)) / B for d in range(D)]
        deviation = [math.sqrt(sum((z[i, v, d].item() - mean[d]) ** 2 for i in range(B)) / B) for d in range(D)]
        costs["center"] += sum(x * x for x in mean) / (V * D)
        costs["scale"] += sum((1 - x) ** 2 for x in deviation) / (V * D)
        x = (z[:, v] - torch.tensor(mean)) / (torch.tensor(deviation) + 1e-4)
        for m in range(M):
            for i, y in enumerate(sorted(along(m, x)), 1):
                costs["shape"] += (y - NormalDist().inv_cdf(i / (B + 1))) ** 2 / (V * M * B)
    return 0.4 * invariance() + 0.6 * (scale * costs["scale"] + shape * costs["shape"] + center * costs["center"])


def test_the_values_are_those_of_the_formulas_and_of_the_authors_code() -> None:
    value = LeJEPA(n_directions=M)(z).item()
    assert value == pytest.approx(lejepa(), rel=1e-6)
    # of rbalestr-lab/lejepa, MINIMAL.md, with these directions
    assert value == pytest.approx(0.7101275987908381, rel=1e-9)
    for scale, shape, center in ((1, 1, 1), (2, 0.5, 3)):
        loss = VISReg(lam=0.6, scale=scale, shape=shape, center=center, n_directions=M)
        assert loss(z).item() == pytest.approx(visreg(scale, shape, center), rel=1e-6)


def test_the_statistic_of_a_normal_sample_is_that_of_any_size() -> None:
    t = torch.linspace(-3, 3, 33, dtype=torch.float64)
    expected = torch.trapezoid((1 - (-t.square()).exp()) * (-t.square() / 2).exp(), t).item()
    for n in (2, 64):
        sample = torch.randn(4000, n, 1, generator=torch.Generator().manual_seed(0))
        assert LeJEPA().regularization(sample, torch.ones(1, 1)).item() == pytest.approx(expected, rel=0.05)


def test_normal_quantiles_have_the_shape_of_visreg_whatever_their_place() -> None:
    quantile = torch.tensor([NormalDist().inv_cdf(i / 2000) for i in range(1, 2000)])[:, None, None].expand(-1, 2, 1)
    assert VISReg(lam=1, n_directions=4)(quantile) < 1e-4
    moved = VISReg(lam=1, scale=2, center=3, n_directions=4)(5 * quantile + 1)
    assert moved.item() == pytest.approx(2 * 4**2 + 3, rel=0.02)


def test_directions_are_spread_evenly_and_new_in_each_step() -> None:
    loss, wide = LeJEPA(n_directions=4096), torch.zeros(2, 2, 16)
    first = loss.directions(wide)
    loss.after_step(lambda x: x)
    second = loss.directions(wide)
    for found in (first, second):
        torch.testing.assert_close(found.norm(dim=1), torch.ones(4096))
        torch.testing.assert_close(found.T @ found / 256, torch.eye(16), rtol=0, atol=0.08)
        assert found.mean(0).norm() < 0.03
    assert (first @ second.T).square().mean().item() == pytest.approx(1 / 16, rel=0.05)
    assert (first * second).sum(1).abs().max() < 0.95


@BOTH
def test_equal_slices_of_anchors_share_the_directions(kind: type[LeJEPA | VISReg]) -> None:
    loss = kind(n_directions=M)
    whole = loss.directions(z)
    torch.testing.assert_close(whole, torch.tensor([direction(m, 0) for m in range(M)], dtype=torch.float64))
    halves = [slice(None, 3), slice(-3, None)]
    assert torch.equal(torch.cat([loss.directions(z, half) for half in halves]), whole)
    torch.testing.assert_close(torch.stack([loss(z, anchors=half) for half in halves]).mean(), loss(z))
    assert len(loss.directions(z, slice(0, 2))) == M  # a third of eight is no whole number


@BOTH
def test_the_seed_of_a_run_draws_where_directions_begin_and_a_checkpoint_keeps_them(kind) -> None:
    loss, resumed = kind(n_directions=M), kind(n_directions=M)
    data, states = Split(torch.zeros(3, 3, 1, 1, dtype=torch.uint8), torch.zeros(3).long()), []
    for seed in (0, 1, 0):
        torch.manual_seed(seed)
        loss.prepare(data, n_classes=0, dim=D)
        states.append(loss.directions(z))
    assert torch.equal(states[0], states[2])
    assert not torch.allclose(states[0], states[1])
    loss.after_step(lambda x: x)
    resumed.load_state_dict(loss.state_dict())
    assert torch.equal(resumed.directions(z), loss.directions(z))


@BOTH
@pytest.mark.parametrize("n", [1, 2])
def test_batches_of_one_image_and_collapsed_ones_have_finite_gradients(kind: type[LeJEPA | VISReg], n: int) -> None:
    for x in (torch.ones(n, 2, D), torch.randn(n, 2, D)):
        value = kind(n_directions=M)(x.requires_grad_())
        value.backward()
        assert value.isfinite()
        assert x.grad is not None and x.grad.isfinite().all()
