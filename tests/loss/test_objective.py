"""The objective: a loss and a regularizer, each on the input it declares."""

import math

import pytest
import torch

from contrastive.errors import ConfigError
from contrastive.experiment.make import make
from contrastive.loss.base import Loss
from contrastive.regularizer.weighted import Weighted
from contrastive.training.objective import Embedded, Objective
from contrastive.types import Split
from tests.helpers import TERMS

N, VIEWS, F, D, CLASSES = 8, 2, 6, 5, 3


def data() -> Split:
    image, bias = torch.zeros(N, 3, 1, 1, dtype=torch.uint8), torch.arange(N) // 2 % 4
    return Split(image, torch.arange(N) % CLASSES, bias, torch.eye(4)[bias], mistaken=bias == 0)


def batch(dtype: torch.dtype = torch.float32, seed: int = 0, views: int = VIEWS) -> Embedded:
    rng = torch.Generator().manual_seed(seed)
    h, z = (torch.randn(N, views, dim, generator=rng).to(dtype).requires_grad_() for dim in (F, D))
    return Embedded({"features": h, "projections": z}, data().label, data().bias)


def objective(loss: Loss, regularizer: Loss | None = None) -> Objective:
    torch.manual_seed(0)
    dims = {"n_classes": CLASSES, "feature_dim": F, "projection_dim": D}
    return Objective(loss, regularizer, train=data(), **dims)


@pytest.mark.parametrize("name", ["group_dro", "sogclr", "glofnd", "softcon", "jtt"])
def test_a_weighted_term_keeps_its_state_and_knows_its_images_as_alone(name):
    options = {"glofnd": {"start": 0}, "group_dro": {"step_size": 5.0}}.get(name, {})
    term, same, first = (make(f"loss/{name}", **options) for _ in range(3))
    nt_xent, alone = make("loss/nt_xent"), objective(term)
    beside, fresh = objective(nt_xent, Weighted(weight=1.0, term=same)), objective(first)
    for seed in range(3):
        images = batch(seed=seed)._replace(rows=torch.tensor([0, 2, 4, 1, 3, 5, 6, 7]))
        with torch.no_grad():
            of_the_other = nt_xent(images.outputs["projections"])
        torch.testing.assert_close(beside(images) - of_the_other, alone(images))
        unseen = fresh(images._replace(rows=None))
        alone.after_step()
        beside.after_step()
    assert not torch.isclose(alone(images), unseen)  # the state, or the image, matters


@pytest.mark.parametrize(
    ("group", "name"),
    [pytest.param(*term, marks=() if term[1] in ("debiased_pos", "fairkl") else pytest.mark.slow) for term in TERMS],
)
def test_objective_compiles_into_one_graph(group, name):
    terms = [make(f"{group}/{name}")] if group == "loss" else [make("loss/nt_xent"), make(f"{group}/{name}")]
    eager, inputs = objective(*terms), batch(views=3)
    leaves = [output.requires_grad_() for output in inputs.outputs.values()]
    torch.compiler.reset()  # or it gives up after eight objectives
    compiled = torch.compile(eager, fullgraph=True, backend="eager")  # which raises where the graph would break
    found, expected = compiled(inputs), eager(inputs)
    torch.testing.assert_close(found, expected)
    found, expected = (torch.autograd.grad(value, leaves, allow_unused=True) for value in (found, expected))
    torch.testing.assert_close(found, expected)
    assert any(gradient is not None and gradient.any() for gradient in found)


def test_terms_are_logged_by_name_and_sum_to_the_objective():
    loss, fairkl = make("loss/nt_xent"), make("regularizer/fairkl")
    both, (outputs, label, bias, _, _) = objective(loss, fairkl), batch()
    expected = {
        "terms/NTXent": loss(outputs["projections"], label),
        "terms/FairKL": fairkl(outputs["features"], label, bias),
    }
    metrics = both.diagnostics(batch())
    terms = {key: value for key, value in metrics.items() if key.startswith("terms/")}
    torch.testing.assert_close(terms, expected)
    torch.testing.assert_close(both(batch()), sum(expected.values()))
    assert {"pairs/fairkl_empty", "debiasing/false_negatives", "debiasing/gradient_on_false_negatives"} <= set(metrics)
    alone = objective(make("loss/debiased_neg")).diagnostics(batch())
    assert "pairs/clamped" in alone
    assert not any(key.startswith("terms/") for key in alone)


def test_diagnostics_leave_no_gradient_and_need_no_labels():
    unlabeled = Embedded(batch().outputs, torch.full((N,), -1), None)
    assert set(objective(make("loss/debiased_neg")).diagnostics(unlabeled)) == {"pairs/clamped", "pairs/push_ratio"}
    labeled = objective(make("loss/debiased_neg")).diagnostics(batch())
    assert not any(value.requires_grad for value in labeled.values())


@pytest.mark.parametrize("regularizer", ["cross_entropy", "end"])
def test_half_precision_is_widened(regularizer):
    value = objective(make("loss/nt_xent"), make(f"regularizer/{regularizer}"))(batch(torch.bfloat16))
    assert value.dtype == torch.float32
    assert value.isfinite()


def test_normalized_classifier_reads_only_directions():
    assert objective(make("loss/nt_xent")).classifier is None  # no term reads logits
    plain, unit = (objective(make("loss/cross_entropy", normalize=wish)) for wish in (False, True))
    h = batch().outputs["features"]
    torch.testing.assert_close(unit.classifier(h), unit.classifier(5 * h))
    logits = plain.classifier(torch.nn.functional.normalize(h, dim=-1))
    torch.testing.assert_close(unit.classifier(h), logits)
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), data().label.repeat_interleave(VIEWS))
    torch.testing.assert_close(unit(batch()), expected)


def test_two_kinds_of_classifier_are_refused():
    with pytest.raises(ConfigError, match=r"try loss\.normalize=false"):
        objective(make("loss/cross_entropy", normalize=True), make("regularizer/bias_balanced"))


def test_chance_is_the_loss_of_views_that_are_alike() -> None:
    cpu = torch.device("cpu")
    chance = objective(make("loss/nt_xent")).chance(N, VIEWS, cpu)
    assert chance["train/chance"] == pytest.approx(math.log(2 * N - 1))
    n = 2 * N - 2  # negatives
    others = {"debiased_neg": n, "debiased_pos": n, "hard_negative": n, "combination": n, "fnc": n - 10}
    for name, kept in others.items():
        found = objective(make(f"loss/{name}")).chance(N, VIEWS, cpu)["train/chance"]
        assert found == pytest.approx(math.log(1 + kept), rel=1e-5)
    assert objective(make("loss/decoupled")).chance(N, VIEWS, cpu)["train/chance"] == pytest.approx(math.log(n))
    for loss in ("supcon", "cross_entropy", "vicreg", "kcl", "sigmoid"):
        assert objective(make(f"loss/{loss}")).chance(N, VIEWS, cpu) == {}
    assert objective(make("loss/nt_xent"), make("regularizer/end")).chance(N, VIEWS, cpu) == {}
