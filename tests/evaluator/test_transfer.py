"""The encoder on other datasets, by made features."""

from dataclasses import replace
from types import SimpleNamespace

from contrastive.evaluator.base import FeatureSets
from contrastive.evaluator.knn import KNN
from contrastive.evaluator.linear import Linear
from contrastive.evaluator.transfer import Transfer
from tests.helpers import blobs, feature_sets


def test_figures_are_those_of_both_probes_with_these_settings_on_each_dataset():
    own = feature_sets(blobs(201, 0), blobs(50, 1), blobs(100, 2))
    others = {"digits": feature_sets(blobs(201, 3, 2.0), blobs(50, 4, 2.0), blobs(100, 5, 2.0)), "/my/cats": own}
    asked: list[str] = []

    def transfer(name: str) -> FeatureSets:
        asked.append(name)
        return others[name]

    settings = {"k": 3, "temperature": 0.1}, {"l2": (1e3,), "max_iter": 7}
    scores = Transfer(datasets=tuple(others), **settings[0], **settings[1])(
        replace(own, images=SimpleNamespace(transfer=transfer))
    )
    assert asked == ["digits", "/my/cats"]
    for key, features in (("digits", others["digits"]), ("cats", own)):
        for name, probe in (("knn", KNN(**settings[0])), ("linear", Linear(**settings[1]))):
            alone = probe(features)
            assert scores.test[f"{key}_{name}_top1"] == alone.test["top1"]
            assert scores.val[f"{key}_{name}_top1"] == alone.val["top1"]
    assert scores.test["digits_linear_top1"] != Linear()(others["digits"]).test["top1"]  # the strength matters
