"""Weighted nearest neighbors by their definition, and which images each choice may read."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

from contrastive.evaluator.base import FeatureSets, topk_accuracy
from contrastive.evaluator.knn import KNN, KNNSweep, nearest, vote
from contrastive.types import Features
from tests.golden import raw_inputs
from tests.helpers import blobs, feature_sets


def knn_scores(bank, label, query, *, n_classes, k, temperature):
    cosines, index = nearest(bank, query, k)
    return vote(cosines, label[index], n_classes=n_classes, temperature=temperature)


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


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 40), st.data(), st.sampled_from([1e-4, 0.07, 0.5, 20.0]))
def test_scores_are_the_definition_at_any_temperature(seed, n, data, t):
    k, rng = data.draw(st.integers(1, n)), torch.Generator().manual_seed(seed)
    bank, query, label = torch.randn(n, 6, generator=rng), torch.randn(5, 6, generator=rng), torch.arange(n) % 3
    cosines = (normalize(query.double(), dim=1) @ normalize(bank.double(), dim=1).T).float()
    expected = torch.zeros(5, 3, dtype=torch.float64)
    for q, row in enumerate(cosines):
        best = row.argsort(descending=True)[:k]
        expected[q].index_add_(0, label[best], ((row[best] - row.max()).double() / t).exp())
    found = knn_scores(bank, label, query, n_classes=3, k=k, temperature=t).double()
    torch.testing.assert_close(found, expected, rtol=1e-2 if t < 0.01 else 1e-4, atol=1e-2 if t < 0.01 else 1e-4)


@pytest.mark.parametrize("evaluator", [KNN(k=1), KNNSweep(k=(1,))])
def test_validation_images_are_in_the_bank_of_test_images_alone(evaluator):
    corners, label = torch.eye(3).repeat(10, 1), torch.arange(3).repeat(10)
    val = Features(-corners[:3] + 0.5, label[:3])  # a place where only they are
    train = Features(corners, label)
    bank = Features(torch.cat([corners, val.h]), torch.cat([label, val.label]))
    scores = evaluator(FeatureSets(bank=bank, train=train, val=val, test=val, n_classes=3))
    assert (scores.val["top1"], scores.test["top1"]) == (0, 100)


def test_the_sweep_is_the_first_best_of_its_single_evaluators_with_at_most_a_tenth():
    features = feature_sets(blobs(300, 0, 3.0), blobs(80, 1, 3.0), blobs(200, 2, 3.0))
    for ks, ts in [((1, 3, 10, 200), (0.05, 0.5)), ((3, 3), (0.5, 0.5001))]:
        single = {(k, t): KNN(k=min(k, 30), temperature=t)(features) for k, t in itertools.product(ks, ts)}
        k, t = max(single, key=lambda pair: single[pair].val["top1"])  # the first of equals
        sweep = KNNSweep(k=ks, temperature=ts)(features)
        assert (sweep.test.pop("k"), sweep.test.pop("temperature")) == (min(k, 30), t)
        assert (sweep.test, sweep.val) == (single[k, t].test, single[k, t].val)
    of_a_tenth, all_of_it = KNN(k=38)(features), KNN(k=380)(features)  # of 380 images
    assert (of_a_tenth.test, of_a_tenth.val) == (all_of_it.test, all_of_it.val)
