"""Evaluators together: names, sections of the result, predictions handed on; alignment and uniformity."""

import math

import pytest
import torch
import torch.nn.functional as F

from contrastive.errors import ConfigError
from contrastive.evaluator.base import Evaluator, FeatureSets, Scores, evaluate
from contrastive.evaluator.classifier import Classifier
from contrastive.evaluator.geometry import AlignmentUniformity
from contrastive.types import Features
from tests.helpers import blobs, feature_sets


class Fixed(Evaluator):
    """Gives what it was made with."""

    protocol = "fixed"

    def __init__(self, scores: Scores | dict[str, float]) -> None:
        self.scores = scores

    def __call__(self, features: FeatureSets) -> Scores | dict[str, float]:
        return self.scores


class Counts(Evaluator):
    protocol = "counts"

    def __call__(self, features: FeatureSets) -> Scores:
        return Scores(test={"before": len(features.predictions)}, val={"top1": 3.0}, audit={"names": 1})


PLAIN = Fixed({"": 1.0, "top1": 2.0})
FEATURES = feature_sets(blobs(20, 0), blobs(8, 1), blobs(8, 2))


def test_figures_get_their_evaluators_name():
    predicts = Fixed(Scores(test={"top1": 4.0}, predictions={"": torch.zeros(len(FEATURES.test.h))}))
    scores = evaluate({"a": PLAIN, "b": Fixed(Scores()), "c": predicts, "d": Counts()}, FEATURES)
    assert scores.test == {"a": 1.0, "a_top1": 2.0, "c_top1": 4.0, "d_before": 1}
    assert scores.val == {"d_top1": 3.0}
    assert scores.audit == {"names": 1}
    assert scores.protocol == {"a": "fixed", "c": "fixed", "d": "counts"}
    assert FEATURES.predictions == {}
    assert evaluate({}, FEATURES) == Scores()


def test_the_classifier_reports_only_where_one_was_trained():
    assert Classifier()(FEATURES) == Scores()
    perfect = FeatureSets(**{**vars(FEATURES), "classifier": lambda h: h[:, :4]})
    scores = Classifier()(perfect)
    assert scores.test["top1"] > 80
    assert scores.val["top1"] > 80
    assert torch.equal(scores.predictions[""], FEATURES.test.h[:, :4].argmax(1))


def test_a_figure_that_is_no_number_names_its_evaluator(capsys):
    odd, groups = Fixed({"top1": math.nan}), [{"top1": math.inf}]
    scores = evaluate({"odd": odd, "plain": PLAIN}, FEATURES)
    assert scores.test == {"plain": 1.0, "plain_top1": 2.0}
    assert "warning: evaluator odd gives top1 = nan on this data: it is left out" in capsys.readouterr().out
    odd = Fixed(Scores(test={"top1": 1.0}, audit={"groups": groups}))
    scores = evaluate({"odd": odd}, FEATURES)
    assert (scores.test, scores.audit) == ({"odd_top1": 1.0}, {})


def test_what_is_no_figure_is_answered_with_what_to_write():
    with pytest.raises(ConfigError, match="evaluator odd returns a float: try a dict of numbers"):
        evaluate({"odd": Fixed(52.4)}, FEATURES)
    found = evaluate({"odd": Fixed({"top1": torch.tensor(52.5)})}, FEATURES).test["odd_top1"]
    assert isinstance(found, float) and found == 52.5


def test_alignment_and_uniformity_equal_a_loop_over_pairs():
    rng = torch.Generator().manual_seed(0)
    test = Features(torch.randn(20, 5, generator=rng), torch.randint(-1, 3, (20,), generator=rng))
    x = F.normalize(test.h, dim=1)
    pairs = [(i, j) for i in range(20) for j in range(i)]
    distances = {(i, j): float((x[i] - x[j]).square().sum()) for i, j in pairs}
    same = [distances[i, j] for i, j in pairs if test.label[i] == test.label[j] >= 0]  # -1: unlabeled
    scores = AlignmentUniformity()(feature_sets(test, test, test)).test
    assert scores["alignment"] == pytest.approx(sum(same) / len(same), rel=1e-4)
    mean = sum(math.exp(-2 * d) for d in distances.values()) / len(pairs)
    assert scores["uniformity"] == pytest.approx(math.log(mean), rel=1e-4)
