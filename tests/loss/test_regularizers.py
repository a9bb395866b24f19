"""FairKL: the KL with a running variance, the literal KL, the released moment matching; LNL."""

import math

import pytest
import torch
import torch.nn.functional as F

from contrastive.experiment.make import make
from contrastive.types import Split

LABEL = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
BIAS = torch.tensor([0, 0, 1, 1, 1, 1, 0, 0])


def features(seed: int = 0) -> torch.Tensor:
    return torch.randn(8, 1, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow(h: torch.Tensor, past: dict[str, list[float]], *, floor: float = 1e-3, momentum: float = 0.9) -> float:
    """The docstring's formula, one pair at a time; `past` holds the conflicting variances of all batches so far."""
    h = torch.nn.functional.normalize(h[:, 0], dim=-1)
    kinds: dict[tuple[bool, bool], list[float]] = {}
    for i in range(8):
        for j in range(i):
            kind = (bool(LABEL[i] == LABEL[j]), bool(BIAS[i] == BIAS[j]))
            kinds.setdefault(kind, []).append(float(h[i] @ h[j]))
    total = 0.0
    for name, is_positive in (("positives", True), ("negatives", False)):
        (mean_a, var_a), (mean_c, var_c) = (
            (sum(x) / len(x), sum((v - sum(x) / len(x)) ** 2 for v in x) / len(x))
            for x in (kinds[is_positive, True], kinds[is_positive, False])
        )
        past[name].append(var_c)
        weights = [momentum ** (len(past[name]) - 1 - k) for k in range(len(past[name]))]
        running = sum(w * v for w, v in zip(weights, past[name], strict=True)) / sum(weights)
        one, two = max(var_a, floor), max(running, floor)
        total += 0.5 * ((one + (mean_a - mean_c) ** 2) / two - math.log(one / two) - 1)
    return total


def test_running_fairkl_equals_its_formula():
    regularizer = make("regularizer/fairkl", semantics="running", weight=0.5).double()
    past = {"positives": [], "negatives": []}
    for seed in range(4):
        assert regularizer(features(seed), LABEL, BIAS).item() == pytest.approx(0.5 * slow(features(seed), past))


def test_the_running_variance_is_a_constant_for_the_gradient():
    regularizer, h = make("regularizer/fairkl", semantics="running").double(), features().requires_grad_()
    (gradient,) = torch.autograd.grad(regularizer(h, LABEL, BIAS), h)
    past: dict[str, list[float]] = {"positives": [], "negatives": []}
    slow(features(), past)
    fixed = {name: Fixed(values) for name, values in past.items()}
    direction, step = features(1), 1e-6
    numeric = (slow(features() + step * direction, fixed) - slow(features() - step * direction, fixed)) / (2 * step)
    assert (gradient * direction).sum().item() == pytest.approx(numeric, rel=1e-5)


class Fixed(list):
    """Variances of a past that no batch is added to."""

    def append(self, value: float) -> None:
        pass


def test_running_variance_needs_a_gradient():
    regularizer = make("regularizer/fairkl", semantics="running").double()
    regularizer(features(), LABEL, BIAS)
    before = regularizer.running.clone()
    with torch.no_grad():
        regularizer(features(1), LABEL, BIAS)
    assert torch.equal(regularizer.running, before)
    regularizer(features(1), LABEL, BIAS)
    assert not torch.equal(regularizer.running, before)
    kept = regularizer.running.clone()
    assert regularizer(features(2), LABEL, torch.zeros(8).long()) == 0  # no conflicting pair
    assert torch.equal(regularizer.running, kept)


def test_two_unordered_pairs_of_each_kind_are_needed():
    h = features()
    label = torch.tensor([0, 0, 0, 1, 2, 3, 4, 5])  # (0, 1) aligned, (0, 2) and (1, 2) conflicting
    bias = torch.tensor([0, 0, 1, 1, 1, 1, 1, 1])
    regularizer = make("regularizer/fairkl", semantics="paper")
    assert regularizer(h, label, bias) == 0
    assert regularizer.diagnostics(h, label, bias) == {"pairs/fairkl_empty": 1}
    label[3], bias[3] = 0, 1  # (2, 3) is the second aligned pair
    assert regularizer(h, label, bias) > 0
    assert regularizer.diagnostics(h, label, bias) == {"pairs/fairkl_empty": 0}


def prepared(**options):
    bias = torch.arange(12) // 2 % 3
    lnl = make("regularizer/lnl", **options)
    torch.manual_seed(0)
    lnl.prepare(Split(torch.zeros(12, 3, 1, 1, dtype=torch.uint8), torch.arange(12) % 4, bias), n_classes=4, dim=4)
    return lnl, torch.randn(12, 2, 4, generator=torch.Generator().manual_seed(0), requires_grad=True), bias


def test_lnl_is_the_entropy_and_the_cross_entropy_with_its_gradient_reversed():
    lnl, z, bias = prepared(weight=0.3)
    logits = lnl.adversary(z.flatten(0, 1))
    q = logits.softmax(1)
    entropy, plain = 0.3 * (q * q.log()).sum(1).mean(), F.cross_entropy(logits, bias.repeat_interleave(2))
    of_entropy, *_ = torch.autograd.grad(entropy, [z], retain_graph=True)
    of_z, *of_adversary = torch.autograd.grad(plain, [z, *lnl.adversary.parameters()])
    value = lnl(z, torch.arange(12) % 4, bias)
    torch.testing.assert_close(value, entropy + plain)
    value.backward()
    torch.testing.assert_close(z.grad, of_entropy - 0.1 * of_z)
    torch.testing.assert_close([p.grad for p in lnl.adversary.parameters()], of_adversary)
