"""The bounds of the debiased papers: their constants against the reference, their losses against the program's."""

import itertools
import json
import math

import pytest
import torch

from contrastive.loss._debiased import debiased_negatives, debiased_positive
from contrastive.seeding import generator
from scripts.bounds import Population, exact_form, lemma1, printed_rate, random_population, rate, theorem3, theorem21
from tests.helpers import ROOT, python


def small_population() -> Population:
    return random_population(generator("cpu", "test"), n_classes=3, per_class=2, dim=2)


def test_printed_bounds_are_those_of_the_reference(golden):
    for case in golden["extra"]["bounds_t1"]:
        n, m, tau = case["N"], case["M"], case["tau_plus"]
        assert printed_rate(n) == pytest.approx(case["lemma1_slack"], rel=1e-12)
        assert (printed_rate(n) + tau * printed_rate(m)) / (1 - tau) == pytest.approx(case["theorem3"], rel=1e-12)
        assert theorem21(n=n, tau_plus=tau).printed_bound == pytest.approx(case["debiasedpos_thm21_delta0"], rel=1e-12)


def test_corrected_rate_bounds_the_deviation_of_the_mean():
    """Half of the values at each end of [1/e, e] is the worst case; the loss magnifies a deviation by e at most."""
    n, rng = 16, generator("cpu", "test")
    values = torch.where(torch.rand(20_000, n, generator=rng) < 0.5, math.e, 1 / math.e)
    deviation = (values.mean(1) - (math.e + 1 / math.e) / 2).abs().mean().item()
    assert 0.7 * rate(n) < math.e * deviation < rate(n) < printed_rate(n)


def test_the_limits_are_expectations_over_every_pair():
    population = small_population()
    everything, positive, negative = population.means()
    tau = population.tau_plus
    assert torch.allclose(everything, tau * positive + (1 - tau) * negative)
    x, label = 4, population.label.tolist()
    other = [population.similarity[x, y].item() for y in range(6) if label[y] != label[x]]
    assert negative[x].item() == pytest.approx(sum(other) / len(other))


def test_theorem3_is_the_expectation_over_every_draw():
    population = small_population()
    e, label = population.similarity, population.label.tolist()
    _, _, negative = population.means()
    tau, differences = population.tau_plus, []
    for x, plus, u, v in itertools.product(range(6), repeat=4):
        if label[plus] == label[v] == label[x]:
            # what the program's loss computes
            estimate = debiased_negatives(e[x, u].log(), e[x, v].log(), n=1, tau_plus=tau, temperature=1.0)
            finite = estimate.loss(e[x, plus].log()).item()
            differences.append(math.log1p(negative[x].item() / e[x, plus].item()) - finite)
    check = theorem3(population, generator("cpu", "test"), n=1, m=1, draws=40_000)
    assert check.error == pytest.approx(abs(sum(differences) / len(differences)), abs=0.01)
    assert check.deviation == pytest.approx(sum(map(abs, differences)) / len(differences), rel=0.02)


@pytest.mark.parametrize("n", [4, 256])
def test_lemma1_and_theorem3_hold_with_the_corrected_constant(n):
    for seed in range(3):
        rng = generator("cpu", "test", seed)
        population = random_population(rng)
        lemma, theorem = lemma1(population, rng, n=n, draws=500), theorem3(population, rng, n=n, m=2, draws=500)
        assert lemma.deviation < lemma.corrected_bound < lemma.printed_bound
        assert lemma.margin > -lemma.corrected_bound
        assert theorem.deviation < theorem.corrected_bound < theorem.printed_bound


def test_theorem21_fails_on_two_antipodal_classes():
    n, tau = 10_000, 0.5
    estimate = debiased_positive(
        torch.tensor(math.log(n) - 1, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64), with_self=True,
        n=n, tau_plus=tau, temperature=1.0,
    )  # fmt: skip
    limit = math.log(1 + n * math.exp(-2))
    check = theorem21(n=n)
    assert check.error == pytest.approx(abs(limit - estimate.loss().item()), rel=1e-9)
    assert check.error == pytest.approx(1.997, abs=1e-3)
    assert check.printed_bound == pytest.approx(0.281, abs=1e-3)


def test_the_exact_form_is_the_mean_over_negatives_by_every_tuple():
    population = small_population()
    e, label, tau, n = population.similarity, population.label.tolist(), population.tau_plus, 2
    for x in range(6):
        own, other = ([y for y in range(6) if (label[y] == label[x]) is same] for same in (True, False))
        means = []  # with k of the anchor's class
        for k in range(n + 1):
            tuples = [*itertools.product(*[own] * k, *[range(6)] * (n - k))]
            means.append(sum(math.log1p(e[x, [*ys]].sum().item() / e[x, x].item()) for ys in tuples) / len(tuples))
        total = sum(math.comb(n, k) * (-tau) ** k * mean for k, mean in enumerate(means)) / (1 - tau) ** n
        direct = [math.log1p(e[x, [*ys]].sum().item() / e[x, x].item()) for ys in itertools.product(other, repeat=n)]
        assert total == pytest.approx(sum(direct) / len(direct), rel=1e-12)
    check = exact_form(population, generator("cpu", "test"), n=n, draws=100_000)
    assert check.error < 0.05 < check.deviation


@pytest.mark.slow
def test_the_script_writes_the_page_the_data_and_the_figure(tmp_path):
    done = python(str(ROOT / "scripts/bounds.py"), str(tmp_path / "out"), "smoke", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    checks = json.loads((tmp_path / "out/bounds.json").read_text())["checks"]
    assert len((tmp_path / "out/bounds.csv").read_text().splitlines()) == len(checks) + 1
    assert (tmp_path / "out/bounds.md").read_text().strip() in done.stdout
    assert (tmp_path / "out/bounds.png").stat().st_size > 10_000
