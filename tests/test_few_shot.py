"""The few-shot probe."""

import pytest
import torch

from contrastive.errors import ConfigError
from contrastive.evaluator.few import FewShot
from contrastive.types import Features
from tests.helpers import blobs, feature_sets


def test_few_labels_suffice_for_separate_classes_and_more_help():
    features = feature_sets(blobs(400, 0, 1.5), blobs(50, 1, 1.5), blobs(400, 2, 1.5))
    few, many = FewShot(shots=2)(features).test["top1"], FewShot(shots=50)(features).test["top1"]
    assert 50 < few < many
    assert FewShot(shots=2)(features).test["top1"] == few


def test_only_the_chosen_images_are_fitted():
    train = blobs(400, 0)
    lies = Features(train.h, torch.where(torch.arange(400) < 8, train.label, 3 - train.label))
    honest, lied = (
        FewShot(shots=100)(feature_sets(part, blobs(50, 1), blobs(400, 2))).test["top1"] for part in (train, lies)
    )
    assert honest > 90 > 50 > lied


@pytest.mark.parametrize("wrong", [{"shots": 0}, {"draws": 0}, {"max_iter": 0}, {"l2": -1.0}])
def test_arguments_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError, match=r"try evaluator\.few_shot"):
        FewShot(**wrong)
