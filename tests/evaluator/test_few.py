"""The few-label and few-shot probes, and the draws of labels."""

import torch

from contrastive.evaluator.few import FewLabel, FewShot, draw_labels, in_percent
from contrastive.types import Features
from tests.helpers import blobs, feature_sets


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
