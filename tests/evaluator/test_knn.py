"""Weighted nearest neighbors, and those whose k and t are chosen on the validation images."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from contrastive.evaluator.base import FeatureSets
from contrastive.evaluator.knn import KNN, KNNSweep, knn_scores, nearest, similarities
from contrastive.evaluator.probes import topk_accuracy
from contrastive.types import Features
from tests.golden import raw_inputs
from tests.helpers import blobs, feature_sets


def test_scores_equal_the_golden_values(golden):
    z = raw_inputs({"kind": "hash", "V": 2, "B": 40, "D": 16})
    label = torch.arange(40) % 5
    for case in golden["extra"]["knn"]:
        scores = knn_scores(z[:, 0], label, z[:, 1], n_classes=5, k=case["k"], temperature=case["T"])
        assert scores.argmax(1).tolist() == case["pred"]
        expected = torch.tensor(case["scores_query0"])
        torch.testing.assert_close(scores[0] / scores[0].sum(), expected / expected.sum(), rtol=2e-5, atol=1e-6)
        assert topk_accuracy(scores, label, 1) == case["acc1"]
        assert topk_accuracy(scores, label, 5) == case["acc5"]


def test_no_temperature_overflows():
    rng = torch.Generator().manual_seed(0)
    bank, label = torch.randn(60, 6, generator=rng), torch.arange(60) % 3
    nearest = knn_scores(bank, label, bank, n_classes=3, k=5, temperature=1e-4)
    assert nearest.isfinite().all()
    assert torch.equal(nearest.argmax(1), label)  # the nearest is the image itself


def test_all_queries_are_compared_in_one_matrix_of_bounded_size():
    rng = torch.Generator().manual_seed(0)
    query, bank = torch.randn(23, 6, generator=rng), torch.randn(40, 6, generator=rng)
    seen = [(rows.start, part, part.clone()) for rows, part in similarities(query, bank, rows=10, pairs=9 * 40)]
    assert [start for start, _, _ in seen] == [0, 9, 18]
    assert len({part.data_ptr() for _, part, _ in seen}) == 1
    torch.testing.assert_close(torch.cat([values for _, _, values in seen]), query @ bank.T)


@pytest.mark.parametrize("n", [300, 2500])
def test_the_nearest_are_the_largest_cosines(n):
    rng = torch.Generator().manual_seed(0)
    query, bank = torch.randn(n, 6, generator=rng), torch.randn(40, 6, generator=rng)
    expected = (F.normalize(query, dim=1) @ F.normalize(bank, dim=1).T).topk(5, dim=1)
    values, indices = nearest(bank, query, 5)
    torch.testing.assert_close(values, expected.values)
    assert torch.equal(indices, expected.indices)


def test_validation_metric_excludes_validation_images_from_bank():
    corners = torch.eye(3).repeat(10, 1)
    label = torch.arange(3).repeat(10)
    train = Features(corners, label)
    val = Features(corners[:3], (label[:3] + 1) % 3)  # every label contradicts the training images
    bank = Features(torch.cat([corners, val.h]), torch.cat([label, val.label]))
    scores = KNN(k=1)(FeatureSets(bank=bank, train=train, val=val, test=train, n_classes=3))
    assert scores.val == {"top1": 0.0}
    assert scores.test["top1"] == 100.0


def test_the_sweep_equals_the_best_of_single_evaluators():
    features = feature_sets(blobs(300, 0, 3.0), blobs(80, 1, 3.0), blobs(200, 2, 3.0))
    k, temperature = (1, 3, 10, 29), (0.05, 0.5)
    single = {(n, t): KNN(k=n, temperature=t)(features) for n, t in itertools.product(k, temperature)}
    best = max(single, key=lambda pair: single[pair].val["top1"])  # the first of equals
    assert len({scores.val["top1"] for scores in single.values()}) > 2
    sweep = KNNSweep(k=k, temperature=temperature)(features)
    assert (sweep.test.pop("k"), sweep.test.pop("temperature")) == best
    assert sweep.test == single[best].test
    assert sweep.val == single[best].val


def test_the_sweep_reads_the_test_split_with_the_k_that_it_chose():
    features = feature_sets(blobs(300, 0, 3.0), blobs(80, 1, 3.0), blobs(200, 2, 3.0))
    assert KNNSweep(k=(200,))(features).test["k"] == len(features.train.h) // 10 < len(features.bank.h) // 10


def test_the_sweep_takes_the_first_of_equals_and_searches_all_training_images():
    rare = blobs(300, 0, 0.1)
    features = feature_sets(blobs(300, 0, 0.1), blobs(80, 1, 0.1), blobs(200, 2, 0.1))
    test = KNNSweep(k=(3, 1), temperature=(0.5, 0.1))(features).test
    assert (test["top1"], test["k"], test["temperature"]) == (100, 3, 0.5)
    features = feature_sets(rare[rare.label != 3], rare[rare.label == 3], blobs(200, 2, 0.1))
    scores = KNNSweep(k=(1,))(features)
    assert (scores.val["top1"], scores.test["top1"]) == (0, 100)  # a class that the validation images alone show


@pytest.mark.parametrize("evaluator", [KNN(k=200), KNNSweep(k=(200,))])
def test_k_is_lowered_to_a_tenth_of_the_bank(evaluator):
    bank = Features(torch.eye(2).repeat(10, 1), torch.tensor([0, 1]).repeat(10))
    test = Features(torch.eye(2), torch.tensor([0, 1]))
    scores = evaluator(FeatureSets(bank=bank, train=bank, val=test, test=test, n_classes=2))
    assert scores.test["top1"] == 100
    assert scores.test.get("k", 2) == 2
