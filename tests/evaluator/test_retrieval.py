"""Retrieval against a loop."""

import pytest
import torch
import torch.nn.functional as F

from contrastive.evaluator.retrieval import Retrieval, retrieval
from contrastive.types import Features
from tests.helpers import feature_sets


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
