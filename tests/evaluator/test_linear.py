"""The linear probe, the logistic regression under it, the few-label and few-shot probes, and DFR."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from contrastive.evaluator import linear
from contrastive.evaluator.base import FeatureSets, Scores
from contrastive.evaluator.dfr import DFR
from contrastive.evaluator.few import FewLabel, FewShot, draw_labels, in_percent
from contrastive.evaluator.linear import Linear, Standardizer, fit_logistic
from contrastive.types import Features
from tests.helpers import blobs, feature_sets


def objective(weight, x, label, l2):
    weight, x = weight.double(), x.double()
    value = F.cross_entropy(F.linear(x, weight[:, :-1], weight[:, -1]), label)
    return (value + l2 / 2 * weight[:, :-1].square().sum()).item()


def hard_data(case):
    """Standardized features (N, F) and labels of three classes."""
    rng = torch.Generator().manual_seed(0)
    n, dim = {"wide": (60, 500)}.get(case, (300, 20))
    label = torch.randint(3, (n,), generator=rng)
    x = torch.randn(n, dim, generator=rng, dtype=torch.float64) @ torch.diag(torch.logspace(0, -3, dim).double())
    x[:, :3] += {"separable": 20, "random": 0}.get(case, 1) * F.one_hot(label, 3)
    if case == "duplicates":
        x = torch.cat([x, x, x[:, :1].expand(-1, 5)], 1)
    if case == "missing class":
        label[label == 2] = 0
    return (x - x.mean(0)) / x.std(0), label


@pytest.mark.parametrize("case", ["random", "separable", "duplicates", "missing class", "wide"])
@pytest.mark.parametrize("l2", [1e-6, 1e-2, 1e4])
def test_the_optimum_is_that_of_scikit_learn(case, l2):
    linear_model = pytest.importorskip("sklearn.linear_model")
    x, label = hard_data(case)
    theirs = linear_model.LogisticRegression(C=1 / (l2 * len(x)), max_iter=10_000, tol=1e-10, solver="newton-cg")
    if case != "missing class":
        theirs.fit(x.numpy(), label.numpy())
        best = torch.from_numpy(np.concatenate([theirs.coef_, theirs.intercept_[:, None]], 1))
    else:  # scikit-learn leaves the class out; here its intercept falls without end
        two = linear_model.LogisticRegression(C=1 / (l2 * len(x)) / 2, max_iter=10_000, tol=1e-10, solver="newton-cg")
        two.fit(x.numpy(), label.numpy())
        half = torch.from_numpy(np.concatenate([two.coef_, two.intercept_[:, None]], 1)) / 2
        nobody = torch.zeros_like(half)
        nobody[:, -1] = -60
        best = torch.cat([-half, half, nobody])
    for dtype in (torch.float32, torch.float64):
        ours = fit_logistic(x.to(dtype), label, n_classes=3, l2=l2, max_iter=100)
        assert objective(ours, x, label, l2) < objective(best, x, label, l2) + 1e-6
    if case != "missing class" and l2 > 1e-6:
        torch.testing.assert_close(ours[:, :-1], best[:, :-1], rtol=1e-5, atol=1e-6)


def test_a_start_far_from_the_optimum_costs_nothing():
    x, label = hard_data("random")
    far = torch.full((3, x.shape[1] + 1), -1.0, dtype=x.dtype)
    far[1] = 30
    near, again = (fit_logistic(x, label, n_classes=3, l2=1e-3, max_iter=100, start=start) for start in (None, far))
    torch.testing.assert_close(near, again, rtol=0, atol=1e-9)


def test_a_fit_takes_few_iterations_and_waits(monkeypatch):
    waits = []
    for name in ("item", "tolist"):
        own = getattr(torch.Tensor, name)
        monkeypatch.setattr(torch.Tensor, name, lambda self, own=own: waits.append(1) or own(self))
    x, label = hard_data("wide")
    fit_logistic(x.float(), label, n_classes=3, l2=1e-3, max_iter=100)
    assert 2 < len(waits) < 50


@pytest.mark.parametrize("dim", [64, 1024])
def test_regression_survives_collapsed_features(dim):
    rng = torch.Generator().manual_seed(0)
    h = torch.randn(400, 1, generator=rng) @ torch.randn(1, dim, generator=rng)  # one direction and no other
    for l2 in (0.0, 1e-6, 1e-2):
        x = (h - h.mean(0)) / h.std(0)
        assert fit_logistic(x, torch.arange(400) % 2, n_classes=2, l2=l2, max_iter=100).isfinite().all()


def test_the_classifier_is_refitted_on_the_validation_images_too():
    rare = blobs(200, 0)
    scores = Linear()(feature_sets(rare[rare.label != 3], rare[rare.label == 3], blobs(400, 2)))
    assert scores.val["top1"] == 0  # of a class that the first fit never saw
    assert scores.test["top1"] > 90


def test_strength_is_chosen_on_the_validation_images():
    # one image more of one class: at strength 1e3 that is all that is learned, and the validation images reject it
    features = feature_sets(blobs(201, 0), blobs(50, 1), blobs(400, 2))
    assert Linear(l2=(1e3, 1e-3))(features).test["top1"] > 90
    assert Linear(l2=(1e3,))(features).test["top1"] < 90


def test_only_training_images_say_how_features_are_standardized(monkeypatch):
    train, val, test = (blobs(20, seed) for seed in range(3))
    made = []
    monkeypatch.setattr(linear, "Standardizer", lambda h: made.append(h) or Standardizer(h))
    Linear()(feature_sets(train, val, test))
    assert len(made) == 1 and torch.equal(made[0], train.h)


def test_small_features_are_standardized_and_constant_ones_are_nothing():
    h = 1e-4 * torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    h[:, 2] = 7
    torch.testing.assert_close(Standardizer(h)(h).std(0), torch.tensor([1.0, 1.0, 0.0]))


def test_draw_takes_a_fraction_of_every_class():
    label = torch.tensor([0] * 100 + [1] * 40 + [2] * 3)
    rows = draw_labels(label, 0.1, draw=0)
    assert torch.bincount(label[rows]).tolist() == [10, 4, 1]
    assert torch.equal(rows, draw_labels(label, 0.1, draw=0))
    assert not torch.equal(rows, draw_labels(label, 0.1, draw=1))
    assert torch.equal(draw_labels(label, 1.0, draw=0), torch.arange(143))
    assert [in_percent(fraction) for fraction in (0.01, 0.1, 1, 0.005)] == ["1pct", "10pct", "100pct", "0.5pct"]


def test_more_labels_help_and_the_figures_are_fixed():
    features = feature_sets(blobs(400, 0, 2.0), blobs(80, 1, 2.0), blobs(400, 2, 2.0))
    scores = FewLabel()(features)
    assert 25 < scores.test["1pct_top1"] < scores.test["10pct_top1"]
    assert set(scores.val) == set(scores.test)
    assert scores == FewLabel()(features)
    few, many = FewShot(shots=2)(features), FewShot(shots=50)(features)
    assert 25 < few.test["top1"] < many.test["top1"]
    assert few == FewShot(shots=2)(features)


def test_the_strength_is_chosen_on_the_validation_images_alone():
    train, val, test = blobs(400, 0), blobs(80, 1), blobs(400, 2)
    lies = Features(test.h, 3 - test.label)
    honest, lied = (FewLabel()(feature_sets(train, val, part)) for part in (test, lies))
    assert honest.val == lied.val
    assert honest.test["10pct_top1"] > 80 > 10 > lied.test["10pct_top1"]


def test_few_shot_fits_the_chosen_images_only():
    train, val, test = blobs(400, 0), blobs(50, 1), blobs(400, 2)
    lies = Features(train.h, torch.where(torch.arange(400) < 8, train.label, 3 - train.label))
    honest, lied = (FewShot(shots=100)(feature_sets(part, val, test)).test["top1"] for part in (train, lies))
    assert honest > 90 > 50 > lied


def test_few_shot_fits_as_many_images_of_each_class_as_it_says():
    features = feature_sets(blobs(8, 0, 2.0), blobs(8, 1), blobs(400, 2))  # two images of each class
    means = {shots: {FewShot(shots=shots, draws=n)(features).test["top1"] for n in (1, 2, 4)} for shots in (1, 2)}
    assert len(means[1]) == 3  # one of two: each draw has its own
    assert len(means[2]) == 1  # both: nothing is left to draw


def features(n: int, conflicting: float, seed: int) -> Features:
    """Two classes; dimension 0 shows the bias plainly, dimension 1 the class in noise."""
    rng = torch.Generator().manual_seed(seed)
    label = torch.arange(n) % 2
    bias = torch.where(torch.rand(n, generator=rng) < conflicting, 1 - label, label)
    noise = torch.randn(n, 3, generator=rng)
    return Features(noise + torch.stack([20 * bias, 2 * label, torch.zeros(n)], 1), label, bias)


def sets(val: Features) -> FeatureSets:
    train, test = features(2000, 0.01, 0), features(2000, 0.5, 2)
    return FeatureSets(bank=train, train=train, val=val, test=test, n_classes=2, n_biases=2)


def worst(scores: Scores, data: FeatureSets) -> float:
    test = data.test
    right = scores.predictions[""] == test.label
    return min(100 * right[(test.label == c) & (test.bias == b)].double().mean().item() for c in (0, 1) for b in (0, 1))


def test_balanced_groups_lift_the_worst_group() -> None:
    data = sets(features(1000, 0.05, 1))
    biased, balanced_fit = worst(Linear()(data), data), worst(DFR()(data), data)
    assert balanced_fit > biased + 20
    best = 100 * torch.special.ndtr(torch.tensor(1.0)).item()  # of the class direction alone: means 2 apart
    assert balanced_fit == pytest.approx(best, abs=6)


@pytest.mark.slow
def test_it_is_deterministic_and_says_nothing_without_groups() -> None:
    data = sets(features(1000, 0.05, 1))
    assert torch.equal(DFR()(data).predictions[""], DFR()(data).predictions[""])
    assert DFR()(sets(features(40, 0.0, 1))).test != {}  # two groups that `val` has
    lone = features(1000, 0.0, 1)
    whole = DFR()(sets(lone)).test
    lone.bias[0] = 1  # a group of one image has no part in it
    assert DFR()(sets(lone)).test == pytest.approx(whole, abs=2)
    assert DFR()(sets(Features(lone.h, lone.label))) == Scores()


def test_the_strength_is_judged_by_images_that_were_not_fitted() -> None:
    rng = torch.Generator().manual_seed(0)
    noise = Features(torch.randn(80, 60, generator=rng), torch.arange(80) % 2, torch.arange(80) // 2 % 2)
    data = FeatureSets(bank=noise, train=noise, val=noise, test=noise, n_classes=2, n_biases=2)
    assert DFR(l2=(1e-4,))(data).val["worst_group_top1"] < 70  # of images that were, all are right
