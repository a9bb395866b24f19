"""Nearest neighbors with k and t chosen on the validation images."""

import itertools

import pytest
import torch

from contrastive.errors import ConfigError
from contrastive.evaluator.base import FeatureSets
from contrastive.evaluator.knn import KNN, KNNSweep
from contrastive.types import Features
from tests.helpers import blobs, feature_sets


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


def test_the_test_split_decides_nothing():
    train, val, test = blobs(300, 0, 3.0), blobs(80, 1, 3.0), blobs(200, 2, 3.0)
    shuffled = Features(test.h, test.label.roll(1))
    first, second = (KNNSweep()(feature_sets(train, val, part)) for part in (test, shuffled))
    assert (first.test["k"], first.test["temperature"]) == (second.test["k"], second.test["temperature"])
    assert first.test["top1"] > 2 * second.test["top1"]


def test_k_is_lowered_to_a_tenth_of_the_bank():
    bank = Features(torch.eye(2).repeat(10, 1), torch.tensor([0, 1]).repeat(10))
    test = Features(torch.eye(2), torch.tensor([0, 1]))
    scores = KNNSweep(k=(200,))(FeatureSets(bank=bank, train=bank, val=test, test=test, n_classes=2))
    assert scores.test["k"] == 2
    assert scores.test["top1"] == 100


@pytest.mark.parametrize("wrong", [{"k": ()}, {"k": (5, 0)}, {"temperature": ()}, {"temperature": (0.1, 0.0)}])
def test_arguments_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError, match=r"try evaluator\.knn_sweep"):
        KNNSweep(**wrong)
