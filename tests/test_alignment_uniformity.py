"""Alignment and uniformity against the goldens and a loop."""

import math

import pytest
import torch
import torch.nn.functional as F

from contrastive.evaluator.geometry import AlignmentUniformity, alignment, uniformity
from contrastive.testing import raw_inputs
from contrastive.types import Features
from tests.helpers import feature_sets


def test_alignment_and_uniformity_equal_the_golden_values(golden):
    z = F.normalize(raw_inputs({"kind": "hash", "V": 2, "B": 8, "D": 16}), dim=-1)
    values = {case["loss"]: case["value"] for case in golden["cases"] if case["id"] in (646, 647)}
    assert alignment(z[:, 0], z[:, 1]).item() == pytest.approx(values["align"], rel=1e-9)
    assert uniformity(z[:, 0]).item() == pytest.approx(values["uniform"], rel=1e-9)


def test_the_evaluator_equals_a_loop_over_pairs():
    rng = torch.Generator().manual_seed(0)
    test = Features(torch.randn(20, 5, generator=rng), torch.randint(0, 3, (20,), generator=rng))
    x = F.normalize(test.h, dim=1)
    pairs = [(i, j) for i in range(20) for j in range(i)]
    distances = {(i, j): float((x[i] - x[j]).square().sum()) for i, j in pairs}
    same = [distances[i, j] for i, j in pairs if test.label[i] == test.label[j]]
    scores = AlignmentUniformity()(feature_sets(test, test, test)).test
    assert scores["alignment"] == pytest.approx(sum(same) / len(same), rel=1e-4)
    mean = sum(math.exp(-2 * d) for d in distances.values()) / len(pairs)
    assert scores["uniformity"] == pytest.approx(math.log(mean), rel=1e-4)
