"""The few-label probe and the draws of labels."""

import pytest
import torch

from contrastive.errors import ConfigError
from contrastive.evaluator.few import FewLabel
from contrastive.evaluator.probes import draw_labels, in_percent
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


def test_more_labels_help_and_the_figure_is_fixed():
    features = feature_sets(blobs(400, 0, 2.0), blobs(80, 1, 2.0), blobs(400, 2, 2.0))
    scores = FewLabel()(features)
    assert 25 < scores.test["1pct_top1"] < scores.test["10pct_top1"]
    assert scores == FewLabel()(features)
    assert set(scores.val) == set(scores.test)


def test_the_strength_is_chosen_on_the_validation_images_alone():
    train, val, test = blobs(400, 0), blobs(80, 1), blobs(400, 2)
    lies = Features(test.h, 3 - test.label)
    honest, lied = (FewLabel()(feature_sets(train, val, part)) for part in (test, lies))
    assert honest.val == lied.val
    assert honest.test["10pct_top1"] > 80 > 10 > lied.test["10pct_top1"]


WRONG = [{"fractions": ()}, {"fractions": (0.1, 1.5)}, {"fractions": (0.0,)}, {"l2": ()}, {"draws": 0}, {"max_iter": 0}]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_arguments_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError, match=r"try evaluator\.few_label"):
        FewLabel(**wrong)
