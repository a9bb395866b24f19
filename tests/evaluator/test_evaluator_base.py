"""Evaluators together: names, sections of the result, predictions handed on; those of geometry, and transfer."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from contrastive.errors import ConfigError
from contrastive.evaluator.base import Evaluator, FeatureSets, Scores, evaluate
from contrastive.evaluator.classifier import Classifier
from contrastive.evaluator.geometry import AlignmentUniformity, AlphaReQ, RankMe
from contrastive.evaluator.knn import KNN
from contrastive.evaluator.linear import Linear
from contrastive.evaluator.transfer import Transfer
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
    scores = Classifier()(FeatureSets(**{**vars(FEATURES), "classifier": lambda h: h[:, :4]}))
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


def test_rankme_equals_the_formula():
    values = torch.tensor([3.0, 2.0, 1.0])
    test, p = Features(torch.diag(values), torch.arange(3)), values / values.sum()
    expected = (-(p * p.log()).sum()).exp().item()
    assert RankMe()(feature_sets(test, test, test)).test[""] == pytest.approx(expected, rel=1e-4)


def of_spectrum(eigenvalues: torch.Tensor) -> FeatureSets:
    """Features of 300 images whose covariance has these 20 eigenvalues, but for a factor."""
    centered = torch.randn(300, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    orthogonal = torch.linalg.qr(centered - centered.mean(0))[0]
    test = Features((orthogonal * eigenvalues.sqrt()).float() + 3, torch.arange(300) % 4)
    return feature_sets(test, test, test)


@pytest.mark.parametrize("options", [{}, {"first": 2}, {"last": 19}, {"first": 3, "last": 18}])
def test_alpha_counts_the_eigenvalues_from_first_to_last(options):
    eigenvalues = torch.linspace(3, 1, 20, dtype=torch.float64).exp()  # no power law
    first, last = options.get("first", 1), options.get("last", 20)
    logs = np.log(np.arange(first, last + 1)), np.log(eigenvalues[first - 1 : last].numpy())
    alpha = AlphaReQ(**options)(of_spectrum(eigenvalues)).test[""]
    assert alpha == pytest.approx(-np.polyfit(*logs, 1)[0], rel=1e-3)


def test_alpha_of_collapsed_features_is_left_out():
    test = Features(torch.ones(40, 6), torch.arange(40) % 4)
    assert AlphaReQ()(feature_sets(test, test, test)).test == {}


def test_figures_of_transfer_are_those_of_both_probes_on_each_dataset():
    own = feature_sets(blobs(201, 0), blobs(50, 1), blobs(100, 2))
    others = {"digits": feature_sets(blobs(201, 3, 2.0), blobs(50, 4, 2.0), blobs(100, 5, 2.0)), "/my/cats": own}
    scores = Transfer(datasets=tuple(others))(replace(own, images=SimpleNamespace(transfer=others.__getitem__)))
    for key, features in (("digits", others["digits"]), ("cats", own)):
        for name, probe in (("knn", KNN(k=20)), ("linear", Linear())):
            alone = probe(features)
            assert scores.test[f"{key}_{name}_top1"] == alone.test["top1"]
            assert scores.val[f"{key}_{name}_top1"] == alone.val["top1"]
