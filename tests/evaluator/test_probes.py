"""The published read-outs: probes trained on augmented images, and the layer trained along with the encoder."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from contrastive.errors import ConfigError
from contrastive.evaluator.base import FeatureSets, Scores
from contrastive.evaluator.few import FewLabel
from contrastive.evaluator.fine_tune import FineTune
from contrastive.evaluator.knn import KNN, KNNSweep
from contrastive.evaluator.linear_sgd import LinearSGD
from contrastive.evaluator.probes import BestEpoch, linear_layer
from contrastive.evaluator.published import AdamProbe, OnlineProbe
from contrastive.evaluator.transfer import Transfer
from contrastive.experiment.make import make
from contrastive.experiment.run import run_experiment
from contrastive.seeding import generator
from contrastive.types import Features, Split, as_float
from tests.helpers import TINY, blobs, encoded, feature_sets, logged_lines, saved_weights


def sets(seen: list[int] | None = None) -> FeatureSets:
    """Blobs whose augmented features move a little from epoch to epoch."""
    plain = feature_sets(blobs(60, 0), blobs(20, 1), blobs(40, 2))

    def augmented(epoch: int) -> Features:
        if seen is not None:
            seen.append(epoch)
        noise = torch.randn(plain.bank.h.shape, generator=torch.Generator().manual_seed(epoch))
        return Features(plain.bank.h + 0.1 * noise, plain.bank.label)

    return replace(plain, images=SimpleNamespace(augmented=augmented))


def test_the_adam_probe_equals_a_loop_by_hand():
    features = sets()
    layer = linear_layer(8, 4, rng=generator("cpu", "linear layer"), device=torch.device("cpu"))
    optimizer = torch.optim.Adam(layer.parameters(), lr=1e-2, weight_decay=1e-3)
    for epoch in range(3):
        train = features.images.augmented(epoch)
        order = torch.randperm(80, generator=generator("cpu", "probe order", epoch))
        for start in (0, 32, 64):
            index = order[start : start + 32]
            optimizer.zero_grad()
            F.cross_entropy(train.h[index] @ layer.weight.T + layer.bias, train.label[index]).backward()
            optimizer.step()
    expected = layer(features.test.h).argmax(1)
    scores = AdamProbe(lr=1e-2, weight_decay=1e-3, epochs=3, batch_size=32)(features)
    assert torch.equal(scores.predictions[""], expected)
    assert scores.test["top1"] == pytest.approx(100 * (expected == features.test.label).double().mean().item())


def test_the_first_of_equal_epochs_is_the_best():
    best, label = BestEpoch(), torch.tensor([0, 1])
    for guess in ([1, 0], [0, 0], [1, 1], [1, 0]):  # right of two: none, one, another one, none
        best.update(torch.eye(2)[guess], label)
    assert best.top1 == 50
    assert best.predictions.tolist() == [0, 0]


def test_each_epoch_of_the_adam_probe_has_views_of_its_own():
    seen: list[int] = []
    AdamProbe(epochs=3)(sets(seen))
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("evaluator", [AdamProbe(), FineTune(), LinearSGD(), Transfer()])
def test_features_without_images_are_refused(evaluator):
    with pytest.raises(ConfigError, match="try evaluator=linear"):
        evaluator(replace(sets(), images=None))


def test_augmented_features_are_those_of_augmented_images(monkeypatch):
    torch.manual_seed(0)
    image = torch.randint(0, 256, (9, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(9))
    net, split = make("encoder/resnet18", width=2).train(), Split(image, torch.tensor([0, -1, 2] * 3))
    augmentation, rows = make("augmentation/supcon"), torch.tensor([0, 2, 3, 5, 6, 8])
    data = SimpleNamespace(pretrain=split)
    images = encoded(net, data, lambda x: 2 * as_float(x) - 1, augmentation=augmentation, seed=5)
    first = images.augmented(4)
    drawn = augmentation.draw(6, 8, 8, generator("cpu", 5, "augmented features", 4))
    torch.testing.assert_close(first.h, net.eval()(2 * augmentation.apply(image[rows], drawn) - 1))
    assert first.label.tolist() == [0, 2] * 3
    monkeypatch.setattr("contrastive.training.features.CHUNK", 4)
    torch.testing.assert_close(images.augmented(4).h, first.h, rtol=1e-4, atol=1e-5)  # chunks share one draw
    assert not torch.allclose(images.augmented(5).h, first.h)


def test_online_probe_learns_from_normalized_view_0():
    along = OnlineProbe(lr=0.1)
    along.prepare(dim=8, n_classes=4, device=torch.device("cpu"), seed=3)
    layer = linear_layer(8, 4, rng=generator("cpu", 3, "trained along"), device=torch.device("cpu"))
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    for seed in range(4):
        batch = blobs(20, seed)
        label = batch.label.clone()
        label[:5] = -1  # unlabeled images teach nothing
        along.observe(torch.stack([7 * batch.h, torch.full_like(batch.h, float("nan"))], 1), label)
        optimizer.zero_grad()
        F.cross_entropy(layer(F.normalize(batch.h[5:], dim=1)), batch.label[5:]).backward()
        optimizer.step()
    features = sets()
    scores = along(features)
    expected = layer(F.normalize(features.test.h, dim=1)).argmax(1)
    assert torch.equal(scores.predictions[""], expected)


def test_online_probe_is_silent_before_its_first_step_and_learns_nothing_without_labels():
    along = OnlineProbe()
    assert along(sets()) == Scores()
    along.prepare(dim=8, n_classes=4, device=torch.device("cpu"), seed=0)
    assert along(sets()) == Scores()
    before = along.layer.linear.weight.clone()
    along.observe(torch.randn(4, 1, 8), torch.full((4,), -1))
    assert torch.equal(along.layer.linear.weight, before)


ALONG = [*TINY[:4], "device=cpu", "evaluator=[linear,online_probe]", "evaluator.linear.max_iter=5"]


@pytest.mark.slow
def test_an_online_probe_reports_its_last_and_its_best_epoch_and_does_not_move_the_encoder(composed, tmp_path):
    result = run_experiment(composed(*ALONG), tmp_path / "with")
    assert {"online_probe_top1", "online_probe_top5", "online_probe_best_test_top1"} <= set(result["test"])
    assert "online_probe_top1" not in result["untrained"]
    assert list(result["val"]) == ["linear_top1"]
    key = "test/online_probe_top1"
    curve = [line[key] for line in logged_lines(tmp_path / "with") if key in line]
    assert len(curve) == 3
    assert result["test"]["online_probe_best_test_top1"] == max(curve)
    run_experiment(composed(*ALONG, "evaluator=[linear]"), tmp_path / "without")
    ours, plain = (saved_weights(tmp_path / name) for name in ("with", "without"))
    assert all(torch.equal(ours[key], plain[key]) for key in plain)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (KNN, {"temperature": math.inf}), (KNNSweep, {"temperature": (0.1, math.nan)}), (KNNSweep, {"temperature": ()}),
        (FewLabel, {"fractions": ()}), (FewLabel, {"fractions": (0.1, 1.5)}), (FineTune, {"fractions": (2.0,)}),
    ],
    ids=str,
)  # fmt: skip
def test_arguments_out_of_range_are_refused(kind, wrong):
    with pytest.raises(ConfigError, match=rf"evaluator\.\w+\.{next(iter(wrong))} .*try evaluator"):
        kind(**wrong)
