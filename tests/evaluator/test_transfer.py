"""The encoder on other datasets, by made features."""

from dataclasses import replace
from types import SimpleNamespace

from contrastive.evaluator.knn import KNN
from contrastive.evaluator.linear import Linear
from contrastive.evaluator.transfer import Transfer
from tests.helpers import blobs, feature_sets


def test_figures_are_those_of_both_probes_on_each_dataset():
    own = feature_sets(blobs(201, 0), blobs(50, 1), blobs(100, 2))
    others = {"digits": feature_sets(blobs(201, 3, 2.0), blobs(50, 4, 2.0), blobs(100, 5, 2.0)), "/my/cats": own}
    scores = Transfer(datasets=tuple(others))(replace(own, images=SimpleNamespace(transfer=others.__getitem__)))
    for key, features in (("digits", others["digits"]), ("cats", own)):
        for name, probe in (("knn", KNN(k=20)), ("linear", Linear())):
            alone = probe(features)
            assert scores.test[f"{key}_{name}_top1"] == alone.test["top1"]
            assert scores.val[f"{key}_{name}_top1"] == alone.val["top1"]
