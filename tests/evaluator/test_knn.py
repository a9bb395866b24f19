"""Weighted nearest neighbors by their definition, which images each choice may read, and retrieval against a loop."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

from contrastive.evaluator.base import FeatureSets, topk_accuracy
from contrastive.evaluator.knn import KNN, KNNSweep, nearest, vote
from contrastive.evaluator.retrieval import Retrieval, retrieval
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


def loop(h: torch.Tensor, label: list[int], k: tuple[int, ...]) -> dict[str, float]:
    """The definitions, image by image."""
    hits: dict[int, list[bool]] = {n: [] for n in k}
    precisions = []
    for i in range(len(h)):
        others = [j for j in range(len(h)) if j != i]
        if label[i] not in [label[j] for j in others]:
            continue
        others.sort(key=lambda j: -float(F.cosine_similarity(h[i], h[j], dim=0)))
        for n in k:
            hits[n].append(any(label[j] == label[i] for j in others[:n]))
        ranks = [rank for rank, j in enumerate(others, 1) if label[j] == label[i]]
        precisions.append(sum(place / rank for place, rank in enumerate(ranks, 1)) / len(ranks))
    values = {f"recall_at_{n}": 100 * sum(hits[n]) / len(hits[n]) for n in k}
    return values | {"map": 100 * sum(precisions) / len(precisions)}


def test_the_figures_equal_a_loop_over_queries(monkeypatch):
    monkeypatch.setattr("contrastive.evaluator.retrieval.PAIRS", 7 * 40)
    rng = torch.Generator().manual_seed(0)
    label = torch.randint(0, 5, (40,), generator=rng)
    label[0] = 9  # alone in its class: no query, but an answer
    h = torch.randn(40, 6, generator=rng)
    values = retrieval(Features(h, label), (1, 3, 100))
    assert values == pytest.approx(loop(h, label.tolist(), (1, 3, 100)))
    assert values["recall_at_100"] == 100
    assert values["recall_at_1"] < values["recall_at_3"] < 100


def test_separate_classes_are_retrieved_perfectly():
    h = torch.cat([torch.eye(3).repeat(4, 1), torch.eye(3)])
    label = torch.cat([torch.arange(3).repeat(4), torch.full((3,), -1)])
    assert retrieval(Features(h, label), (1,)) == {"recall_at_1": 100, "map": 100}
    assert retrieval(Features(torch.eye(3), torch.arange(3)), (1,)) == {}


def test_validation_figures_are_of_the_validation_images():
    perfect = Features(torch.eye(2).repeat(3, 1), torch.arange(2).repeat(3))
    wrong = Features(torch.eye(2).repeat(2, 1), torch.tensor([0, 1, 1, 0]))
    scores = Retrieval(k=(1,))(feature_sets(perfect, wrong, perfect))
    assert scores.test["recall_at_1"] == 100
    assert scores.val["recall_at_1"] == 0
