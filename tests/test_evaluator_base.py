"""Evaluators together: names, sections of the result, predictions handed on."""

import math

import pytest
import torch

from contrastive.errors import ConfigError
from contrastive.evaluator.base import Evaluator, FeatureSets, Scores, evaluate
from contrastive.evaluator.classifier import Classifier
from contrastive.evaluator.geometry import AlignmentUniformity
from tests.helpers import blobs, feature_sets


class Plain(Evaluator):
    protocol = "plain"

    def __call__(self, features: FeatureSets) -> dict[str, float]:
        return {"": 1.0, "top1": 2.0}


class Silent(Evaluator):
    protocol = "silent"

    def __call__(self, features: FeatureSets) -> Scores:
        return Scores()


class Counts(Evaluator):
    protocol = "counts"

    def __call__(self, features: FeatureSets) -> Scores:
        return Scores(test={"before": len(features.predictions)}, val={"top1": 3.0}, audit={"names": 1})


class Predicts(Evaluator):
    protocol = "predicts"

    def __call__(self, features: FeatureSets) -> Scores:
        return Scores(test={"top1": 4.0}, predictions={"": torch.zeros(len(features.test.h))})


def test_figures_get_their_evaluators_name():
    features = feature_sets(blobs(20, 0), blobs(8, 1), blobs(8, 2))
    scores = evaluate({"a": Plain(), "b": Silent(), "c": Predicts(), "d": Counts()}, features)
    assert scores.test == {"a": 1.0, "a_top1": 2.0, "c_top1": 4.0, "d_before": 1}
    assert scores.val == {"d_top1": 3.0}
    assert scores.audit == {"names": 1}
    assert scores.protocol == {"a": "plain", "c": "predicts", "d": "counts"}
    assert features.predictions == {}
    assert evaluate({}, features) == Scores()


def test_the_classifier_reports_only_where_one_was_trained():
    features = feature_sets(blobs(20, 0), blobs(8, 1), blobs(8, 2))
    assert Classifier()(features) == Scores()
    perfect = FeatureSets(**{**vars(features), "classifier": lambda h: h[:, :4]})
    scores = Classifier()(perfect)
    assert scores.test["top1"] > 80
    assert scores.val["top1"] > 80
    assert torch.equal(scores.predictions[""], features.test.h[:, :4].argmax(1))


def test_a_figure_that_is_no_number_names_its_evaluator(capsys):
    class Odd(Evaluator):
        protocol = "odd"

        def __call__(self, features: FeatureSets) -> dict[str, float]:
            return {"top1": float("nan")}

    features = feature_sets(blobs(20, 0), blobs(8, 1), blobs(8, 2))
    with pytest.raises(ConfigError, match=r"evaluator odd gives top1 = nan on this data: try '~evaluator\.odd'"):
        evaluate({"odd": Odd()}, features)
    scores = evaluate({"odd": Odd(), "plain": Plain()}, features, strict=False)
    assert scores.test == {"plain": 1.0, "plain_top1": 2.0}
    assert "warning: evaluator odd gives top1 = nan on this data: it is left out" in capsys.readouterr().out
    Odd.__call__ = lambda self, features: Scores(test={"top1": 1.0}, audit={"groups": [{"top1": math.inf}]})
    with pytest.raises(ConfigError, match="evaluator odd gives an audit with NaN or infinity"):
        evaluate({"odd": Odd()}, features)
    scores = evaluate({"odd": Odd()}, features, strict=False)
    assert (scores.test, scores.audit) == ({"odd_top1": 1.0}, {})


def test_a_single_test_image_has_no_uniformity():
    assert AlignmentUniformity()(feature_sets(blobs(20, 0), blobs(8, 1), blobs(1, 2))).test == {}
